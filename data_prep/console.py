"""The streams that people read: colors and progress on terminals only."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

# Programs that run commands set this environment variable, so that these do not suggest the next command.
NO_SUGGESTIONS = "ALBERT_TF_NO_SUGGESTIONS"


def open_console(*, stderr: bool = False, **options: Any) -> Console:
    """Opens standard output or standard error.

    Rich takes a pipe for a terminal if FORCE_COLOR is set, as it is for the commands in a Jupyter notebook, and
    a progress bar then fills the page with thousands of lines.

    Args:
      stderr: standard error instead of standard output.
      **options: of `rich.console.Console`.
    """
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, force_terminal=None if stream.isatty() else False, **options)


@contextlib.contextmanager
def silenced_stderr() -> Iterator[None]:
    """Silences standard error within the block, also for C++ code."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as silence:
            os.dup2(silence.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


@contextlib.contextmanager
def working(task: str) -> Iterator[None]:
    """Shows what the block does and for how long, if standard error is a terminal, and erases the line at the end.

    Rich would hide the cursor, which would stay hidden if Ctrl-C ended the process inside C++ code.
    """
    if not sys.stderr.isatty():
        yield
        return
    clock = _Clock(task)
    _clocks.append(clock)
    clock.start()
    try:
        yield
    finally:
        _clocks.remove(clock)
        clock.end()


@contextlib.contextmanager
def no_clock() -> Iterator[None]:
    """Keeps `working` from drawing within the block, because something else is drawn."""
    clocks = list(_clocks)
    for clock in clocks:
        clock.hide()
    try:
        yield
    finally:
        for clock in clocks:
            clock.is_hidden = False


class _Clock(threading.Thread):
    """A line such as "exporting to saved_model ... 0:07", from its first second on."""

    def __init__(self, task: str):
        super().__init__(daemon=True)
        self.is_hidden = False
        self._task, self._began, self._ended = task, time.monotonic(), threading.Event()
        # A copy, since `silenced_stderr` points descriptor 2 at /dev/null.
        self._terminal = os.dup(sys.stderr.fileno())

    def run(self) -> None:
        while not self._ended.wait(1):
            if not self.is_hidden:
                minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
                self._write(f"{self._task} ... {minutes}:{seconds:02}")

    def hide(self) -> None:
        self.is_hidden = True
        self._write("")

    def end(self) -> None:
        self._ended.set()
        self.join()
        self._write("")
        os.close(self._terminal)

    def _write(self, line: str) -> None:
        """Replaces the terminal's last line."""
        with contextlib.suppress(OSError):  # the terminal was closed
            os.write(self._terminal, f"\r\x1b[K{line}".encode())


_clocks: list[_Clock] = []
