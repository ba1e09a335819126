"""The programs that an experiment is made of, each in a process of its own.

So a crash costs one run, memory is given back, and this process needs no TensorFlow, which would keep the GPUs for
itself.
"""

import contextlib
import dataclasses
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from data_prep.errors import InputError, Preempted

_LONGEST_LINE = 300


class Programs:
    """Runs programs one after the other; in its context a SIGTERM is handed on to the one that runs.

    Attributes:
      requested: whether this process was told to end.
    """

    def __init__(self) -> None:
        self.requested = False
        self._running: subprocess.Popen | None = None
        self._console = Console(stderr=True)

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():  # signals are for that one
            self._before = signal.signal(signal.SIGTERM, self._terminate)
        return self

    def __exit__(self, *_):
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)

    def say(self, line: str) -> None:
        """Prints a line."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def albert(self, command: str, settings: Any) -> None:
        """Runs an `albert` command.

        Args:
          command: its name.
          settings: the dataclass that its flags derive from.

        Raises:
          InputError: it failed, and has said why.
          Preempted: there was a SIGTERM, to this process or that one.
        """
        words = [command, *flags_of(settings)]
        self._run("albert_cli.cli", words, f"albert {command}", f"albert {shlex.join(words)}")

    def module(self, module: str, *words: str) -> None:
        """Runs a module of this package with arguments; raises as `albert` does."""
        self._run(module, list(words), module, f"python -m {module} {shlex.join(words)}")

    def _run(self, module: str, words: list[str], name: str, line: str) -> None:
        self.check()
        self.say(f"$ {line if len(line) < _LONGEST_LINE else line[:_LONGEST_LINE] + '...'}")
        with self._started([sys.executable, "-m", module, *words]) as process:
            status = process.wait()
        self.check()
        if status in (-signal.SIGTERM, 128 + signal.SIGTERM):
            raise Preempted(f"{name} was told to end (SIGTERM); the same command goes on with it")
        if status in (-signal.SIGINT, 128 + signal.SIGINT):
            raise KeyboardInterrupt
        if status:
            raise InputError(f"{name} failed: {_reason(status)}. The same command tries it again.")

    @contextlib.contextmanager
    def _started(self, command: list[str]) -> Iterator[subprocess.Popen]:
        """A process that gets this one's signals, and is over when the block is."""
        # In a session of its own, for a terminal's Ctrl-C would reach it twice.
        self._running = subprocess.Popen(command, start_new_session=True)
        try:
            if self.requested:  # in the moment before
                self._running.terminate()
            yield self._running
        except KeyboardInterrupt:
            self._running.send_signal(signal.SIGINT)
            self._running.wait()
            raise
        finally:
            if self._running.poll() is None:
                self._running.kill()
                self._running.wait()
            self._running = None

    def check(self) -> None:
        """Raises Preempted if this process was told to end."""
        if self.requested:
            raise Preempted("told to end (SIGTERM): the same command goes on with the run that it was at")

    def _terminate(self, *_) -> None:
        self.requested = True
        if self._running:
            self._running.terminate()


def flags_of(settings: Any) -> list[str]:
    """The flags of a dataclass that are not at their defaults.

    >>> flags_of(VocabularySettings("text.txt", "vocabulary", vocab_size=100))
    ['--input_file=text.txt', '--output_prefix=vocabulary', '--vocab_size=100']
    """
    return [
        f"--{field.name}={value}"
        for field in dataclasses.fields(settings)
        if (value := getattr(settings, field.name)) != field.default
    ]


def _reason(status: int) -> str:
    if status == 2:
        return "it says above what to do"
    if status == -signal.SIGKILL:
        return "it was killed, perhaps because memory ran out; a smaller batch or scale needs less"
    if status < 0:
        return f"it ended with {signal.Signals(-status).name}"
    return f"it ended with status {status}, and says why above"
