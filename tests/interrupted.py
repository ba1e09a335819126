"""Runs of `albert` that receive Ctrl-C."""

import os
import signal

from albert_cli import cli
from albert_tf.training.step_loop import StepLoop
from data_prep.signals import signal_handler


def run_until_ctrl_c(monkeypatch, arguments: list[str], presses: int = 1, at: str = "run") -> int:
    """The status of a command that receives Ctrl-C, once or more, when it calls the method `at` of its loop."""
    method = getattr(StepLoop, at)

    def interrupted(*arguments):
        for _ in range(presses):
            os.kill(os.getpid(), signal.SIGINT)
        return method(*arguments)

    # The background processes of a shell, such as these tests, ignore it.
    with monkeypatch.context() as patched, signal_handler(signal.default_int_handler, signal.SIGINT):
        patched.setattr(StepLoop, at, interrupted)
        return cli.main(arguments)
