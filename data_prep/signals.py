"""Handlers of signals for the length of a block."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any


@contextlib.contextmanager
def signal_handler(handler: Callable[..., Any] | signal.Handlers, *numbers: signal.Signals) -> Iterator[None]:
    """Within this context `handler` handles the signals.

    In other threads than the main one nothing changes, since only the main thread may set handlers.
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
def ignored_signals_sent_again(numbers: Mapping[type[BaseException], signal.Signals]) -> Iterator[None]:
    """Within this context no signal is lost whose handler raises one of these exceptions.

    Python ignores exceptions in finalizers and in callbacks of the garbage collector. A signal that arrives there
    is sent again a moment later, when other code runs.

    Args:
      numbers: the signal of each exception.
    """
    report = sys.unraisablehook

    def send_again(unraisable: "sys.UnraisableHookArgs") -> None:
        number = numbers.get(unraisable.exc_type)
        if number is None:
            report(unraisable)
            return
        later = threading.Timer(0.05, os.kill, (os.getpid(), number))
        later.daemon = True
        later.start()

    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = report
