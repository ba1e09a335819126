"""What the commands do with the terminal's streams."""

import os
import signal
import sys
from collections.abc import Sequence

from data_prep.console import NO_SUGGESTIONS, open_console, silenced_stderr, working
from data_prep.signals import signal_handler


def import_tensorflow() -> None:
    """Imports TensorFlow without the messages on CUDA and oneDNN that its C++ code prints at start-up.

    Ctrl-C and SIGTERM end the process at once: in the middle of an import they would raise all kinds of errors.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    at_once = signal_handler(signal.SIG_DFL, signal.SIGINT, signal.SIGTERM)
    with working("starting TensorFlow"), silenced_stderr(), at_once:
        import tensorflow as tf

        tf.config.list_physical_devices()


def print_notes(notes: Sequence[str]) -> None:
    """Prints each note on a line of standard error."""
    for note in notes:
        print_message(f"note: {note}")


def print_message(message: str) -> None:
    """Prints a line to standard error, neither wrapped nor highlighted."""
    open_console(stderr=True, highlight=False, soft_wrap=True).print(message, markup=False)


def print_next(*commands: str) -> None:
    """Suggests what to type next, on standard error and only if that is a terminal."""
    if sys.stderr.isatty() and NO_SUGGESTIONS not in os.environ:
        for command in commands:
            print_message(f"next: {command}")
