"""Where the programs start: while their modules are imported, Ctrl-C ends them without a traceback."""

import os
import signal

from data_prep.signals import signal_handler


def main(arguments: list[str] | None = None) -> int:
    """Runs the `albert` command and returns its exit status."""
    os.environ["KERAS_BACKEND"] = "tensorflow"  # in place of a user's JAX or PyTorch
    with signal_handler(signal.SIG_DFL, signal.SIGINT):
        from albert_cli import cli
    return cli.main(arguments)
