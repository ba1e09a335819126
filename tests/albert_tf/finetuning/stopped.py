"""Runs that end early, as if a signal came at a certain step.

As a program it runs several commands on JAX, where a process takes long to start, and fails if one of them does.

    KERAS_BACKEND=jax python -m tests.albert_tf.finetuning.stopped '[[["finetune", ...], 4, "SIGTERM"], ...]'
"""

import json
import signal
import sys
from unittest import mock

from albert_cli import cli
from albert_tf.training.checkpoints import RunCheckpoints


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


if __name__ == "__main__":
    statuses = {run(*command) for command in json.loads(sys.argv[1])}
    sys.exit(max(statuses - {128 + signal.SIGTERM}, default=0))
