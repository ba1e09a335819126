"""The programs that an experiment runs, each in its own process.

A crash then costs one run, memory is freed, and the laboratory itself needs no TensorFlow, which would occupy the
GPUs.
"""

import contextlib
import dataclasses
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from data_prep.console import NO_SUGGESTIONS, open_console
from data_prep.errors import InputError, Preempted
from data_prep.signals import signal_handler

_LONGEST_LINE = 300


class ProgramRunner:
    """Runs programs one after the other; as a context manager it forwards SIGTERM to the running program.

    Attributes:
      requested: whether this process has received SIGTERM.
    """

    def __init__(self) -> None:
        self.requested = False
        self._running: subprocess.Popen | None = None
        self._console = open_console(stderr=True)

    def __enter__(self):
        self._handled = signal_handler(self._terminate, signal.SIGTERM)
        self._handled.__enter__()
        return self

    def __exit__(self, *exception):
        self._handled.__exit__(*exception)

    def log(self, line: str) -> None:
        """Prints a line to standard error."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def albert(self, command: str, settings: Any) -> None:
        """Runs an `albert` command.

        Args:
          command: its name.
          settings: the dataclass behind its flags.

        Raises:
          InputError: the command failed; it has printed the reason.
          Preempted: this process or the command's received SIGTERM.
        """
        words = [command, *flags_of(settings)]
        self._run("albert_cli.cli", words, f"albert {command}", f"albert {shlex.join(words)}")

    def module(self, module: str, *words: str) -> None:
        """Runs a module of this package with arguments; raises as `albert` does."""
        self._run(module, list(words), module, f"python -m {module} {shlex.join(words)}")

    def check(self) -> None:
        """Raises Preempted if this process has received SIGTERM."""
        if self.requested:
            raise Preempted("interrupted by SIGTERM; the same command resumes the current run")

    def _run(self, module: str, words: list[str], name: str, line: str) -> None:
        self.check()
        self.log(f"$ {line if len(line) < _LONGEST_LINE else line[:_LONGEST_LINE] + '...'}")
        with self._started([sys.executable, "-m", module, *words]) as process:
            status = process.wait()
        self.check()
        if status in (-signal.SIGTERM, 128 + signal.SIGTERM):
            raise Preempted(f"{name} was interrupted by SIGTERM; the same command resumes it")
        if status in (-signal.SIGINT, 128 + signal.SIGINT):
            raise KeyboardInterrupt
        if status:
            raise InputError(f"{name} failed: {_reason(status)}. The same command tries again.")

    @contextlib.contextmanager
    def _started(self, command: list[str]) -> Iterator[subprocess.Popen]:
        """A process that receives this one's signals and has ended when the block ends."""
        # In its own session, because a terminal would otherwise send it Ctrl-C as well.
        environment = {**os.environ, NO_SUGGESTIONS: "1"}
        self._running = subprocess.Popen(command, env=environment, start_new_session=True)
        try:
            if self.requested:  # SIGTERM arrived just before the start
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

    def _terminate(self, *_) -> None:
        self.requested = True
        if self._running:
            self._running.terminate()


def flags_of(settings: Any) -> list[str]:
    """The flags of a dataclass that differ from their defaults; a tuple's flag is given once for each element.

    >>> flags_of(VocabularySettings("text.txt", "vocabulary", vocab_size=100))
    ['--input_file=text.txt', '--output_prefix=vocabulary', '--vocab_size=100']
    """
    given = {
        field.name: value
        for field in dataclasses.fields(settings)
        if (value := getattr(settings, field.name)) != field.default
    }
    return [
        f"--{name}={element}"
        for name, value in given.items()
        for element in (value if isinstance(value, tuple) else (value,))
    ]


def _reason(status: int) -> str:
    if status == 2:
        return "see its message above"
    if status == -signal.SIGKILL:
        return "it was killed, perhaps because memory ran out; a smaller batch or scale needs less"
    if status < 0:
        return f"it ended with {signal.Signals(-status).name}"
    return f"it ended with status {status}; see its output above"
