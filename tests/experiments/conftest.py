import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import processes
from tests.processes import Program


class _Forked(Program):
    """Prints what it has printed when it ends."""

    def __init__(self, command: list[str], env: dict[str, str], start_new_session: bool):
        super().__init__(command[1:], env, Path.cwd())

    def wait(self) -> int | None:
        with self:
            out, err = self.communicate()
            print(out, end="")
            print(err, end="", file=sys.stderr)
            return self.returncode


@pytest.fixture
def forked(monkeypatch):
    """Forks the commands of an experiment; new processes would spend half of their time on importing TensorFlow.

    tests/benchmarks/test_processes.py starts them as in use.
    """
    monkeypatch.setattr(processes, "subprocess", SimpleNamespace(Popen=_Forked))
