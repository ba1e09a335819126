"""Runs that end early, as if a signal came at a certain step.

As a program it runs several commands on JAX, where a process takes long to start, and fails if one of them does.

    KERAS_BACKEND=jax python -m tests.albert_tf.training.stopped '[[["finetune", ...], 4, "SIGTERM"], ...]'
"""

import json
import signal
import sys
from unittest import mock

from albert_cli import cli
from albert_tf.training.checkpoints import RunCheckpoints
from tests.processes import run_together


def run(arguments: list[str], after: int | None, received: str = "SIGTERM") -> int:
    """The status of a command that receives a signal when it has saved the checkpoint of step `after`, if any."""
    save = RunCheckpoints.save

    def save_and_signal(checkpoints, **options):
        prefix = save(checkpoints, **options)
        if checkpoints.step == after:
            signal.raise_signal(signal.Signals[received])
        return prefix

    with mock.patch.object(RunCheckpoints, "save", save_and_signal):
        return cli.main(arguments)


def run_on_jax(
    *commands: list[str] | tuple[list[str], int, str],
    status: int = 0,
    environment: dict[str, str] | None = None,
) -> str:
    """Runs commands, those that stop early with what `run` needs, one after the other in a process.

    Args:
      *commands: the commands.
      status: with which the process must end.
      environment: changes to the variables of the environment.

    Returns:
      Its standard error.
    """
    given = [each if isinstance(each, tuple) else (each, None) for each in commands]
    program = ["-m", "tests.albert_tf.training.stopped", json.dumps(given)]
    (result,) = run_together([program], [{"KERAS_BACKEND": "jax", **(environment or {})}], timeout=500)
    assert result.returncode == status, result.stderr
    return result.stderr


if __name__ == "__main__":
    statuses = {run(*command) for command in json.loads(sys.argv[1])}
    sys.exit(max(statuses - {128 + signal.SIGTERM}, default=0))
