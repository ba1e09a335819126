"""Signal handlers for the duration of a block."""

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

_DEAF = 5.0  # seconds


@contextlib.contextmanager
def signal_handler(handler: Callable[..., Any] | signal.Handlers, *numbers: signal.Signals) -> Iterator[None]:
    """Within this context `handler` handles the signals.

    Does nothing in other threads than the main one, which alone may set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


@contextlib.contextmanager
def signals_raise(exceptions: Mapping[signal.Signals, type[BaseException]]) -> Iterator[None]:
    """Makes signals raise exceptions, whose message is "received" and the signal's name, whatever they interrupt.

    Further signals are ignored for some seconds: `timeout` sends two, to the process and to its group, and the
    second would interrupt the removal of unfinished files.

    Two kinds of code would lose the exception. Python ignores what is raised in finalizers and in callbacks of the
    garbage collector: a signal that arrives there is sent again a moment later, when other code runs. C extensions
    raise an error of their own in its place: the context raises the signal's exception instead of that error.

    Args:
      exceptions: the exception of each signal. Signals that the process ignores stay ignored.
    """
    numbers = {exception: number for number, exception in exceptions.items()}
    received: list[BaseException] = []
    handled = [number for number in exceptions if signal.getsignal(number) is not signal.SIG_IGN]
    report = sys.unraisablehook
    deaf_until = -math.inf

    def raise_exception(number: int, frame: FrameType | None) -> None:
        nonlocal deaf_until
        arrived = signal.Signals(number)
        if time.monotonic() < deaf_until:
            return
        deaf_until = time.monotonic() + _DEAF
        received.append(exceptions[arrived](f"received {arrived.name}"))
        raise received[-1]

    def send_again(unraisable: "sys.UnraisableHookArgs") -> None:
        number = numbers.get(unraisable.exc_type)
        if number is None:
            report(unraisable)
            return
        nonlocal deaf_until
        deaf_until = -math.inf
        later = threading.Timer(0.05, os.kill, (os.getpid(), number))
        later.daemon = True
        later.start()

    sys.unraisablehook = send_again
    try:
        with signal_handler(raise_exception, *handled):
            yield
    except Exception as error:
        if received:
            raise received[-1] from error
        raise
    finally:
        sys.unraisablehook = report
