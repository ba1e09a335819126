"""What can happen to a run from outside, told in a sentence: a full disk, a worker that is gone."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from albert_tf.training.checkpoint_files import steps_in
from albert_tf.training.run_files import CHECKPOINTS
from data_prep.errors import InputError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_WORDS = ("No space left on device", "Disk quota exceeded", "File too large")
_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)


@contextlib.contextmanager
def failures_told(run: Path) -> Iterator[None]:
    """Turns a full disk and a lost worker into an InputError.

    Args:
      run: the run's folder, whose last checkpoint the message names.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise _full(run, str(error.strerror)) from None
    except _LOST as error:
        raise InputError(
            f"Another worker is gone, so this one stops: {_first_line(error)} Start all workers again with the "
            f"same command; {_state(run)}."
        ) from None
    except tf.errors.OpError as error:
        words = next((words for words in _FULL_WORDS if words in error.message), None)
        if words is None:
            raise
        raise _full(run, words) from None


def _full(run: Path, reason: str) -> InputError:
    return InputError(
        f"The disk of {run} is full: {reason}. Make room and use the same command; {_state(run)}."
    )


def _state(run: Path) -> str:
    steps = steps_in(run / CHECKPOINTS)
    return f"the run goes on at step {steps[0]}" if steps else "there is no checkpoint yet"


def _first_line(error: tf.errors.OpError) -> str:
    return (error.message.strip() or type(error).__name__).splitlines()[0]
