"""Where the programs start: while their modules are imported, Ctrl-C ends them without a traceback."""

import os
import signal
import sys

from data_prep.signals import signal_handler

_OURS = ("albert_cli", "albert_tf", "data_prep", "export")


def main(arguments: list[str] | None = None) -> int:
    """Runs the `albert` command and returns its exit status."""
    command = (sys.argv[1:] if arguments is None else arguments)[:1]
    if command not in (["pretrain"], ["finetune"]) or os.environ.get("KERAS_BACKEND") != "jax":
        os.environ["KERAS_BACKEND"] = "tensorflow"  # in place of a user's JAX or PyTorch
    try:
        with signal_handler(signal.SIG_DFL, signal.SIGINT):
            from albert_cli import cli
        return cli.main(arguments)
    except ImportError as error:
        missing = error if isinstance(error, ModuleNotFoundError) else error.__cause__  # cyclopts' own error
        package = str(getattr(missing, "name", "")).partition(".")[0]
        if not isinstance(missing, ModuleNotFoundError) or package in _OURS:
            raise
        # Portable models are installed with --no-deps; docs/export.md lists what they need.
        print(
            f"albert: The command needs the package {package}, which is not installed. Run `pip install "
            f"{package}`, or install albert_tf without --no-deps.",
            file=sys.stderr,
        )
        return 2
