"""What interrupts a run from outside: SIGTERM, a full disk, a lost worker."""

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import tensorflow as tf

from albert_tf.training.checkpoint_files import steps_in
from albert_tf.training.run_files import CHECKPOINTS
from albert_tf.training.strategy import WORKER_LOST, has_workers
from data_prep.errors import InputError, Preempted, disk_full, first_line
from data_prep.signals import signal_handler


class Preemption:
    """Inside this context SIGTERM, by which schedulers reclaim a machine, is recorded and ends nothing.

    Args:
      strategy: with several workers, all stop when one receives SIGTERM; otherwise the others would wait for it.

    Attributes:
      requested: whether this process received SIGTERM.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self.requested = False
        self._count = _counter(strategy)

    def __enter__(self):
        self._handled = signal_handler(self._remember, signal.SIGTERM)
        self._handled.__enter__()
        return self

    def __exit__(self, *exception):
        self._handled.__exit__(*exception)

    def agreed(self) -> bool:
        """Whether any worker received SIGTERM. All workers must call this together."""
        return self.requested if self._count is None else self._count(self.requested) > 0

    def stop(self, step: int) -> Preempted:
        """The exception to raise once the checkpoint of `step` is saved. All workers must call this together."""
        self.agreed()  # waits for the chief: the others must not exit while it saves
        return Preempted(
            f"received SIGTERM: step {step} is saved, and the same command resumes the run from there"
        )

    def watched(self, batches: Iterable, step: int) -> Iterator:
        """Evaluation batches. With one worker SIGTERM ends them, since the checkpoint of `step` is saved."""
        for batch in batches:
            if self.requested and self._count is None:
                raise self.stop(step)
            yield batch

    def _remember(self, *_) -> None:
        self.requested = True


def _counter(strategy: tf.distribute.Strategy) -> Callable[[bool], int] | None:
    """A function that counts in how many workers its argument is true; None for a single process."""
    if not has_workers(strategy):
        return None

    @tf.function(autograph=False)
    def count(value):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: value + 0), axis=None)

    return lambda value: int(count(tf.constant(int(value))))


@contextlib.contextmanager
def as_input_errors(run: Path) -> Iterator[None]:
    """Turns a full disk, a lost worker and a record that is damaged or no example into an InputError.

    Args:
      run: the run's folder; the message names its last checkpoint.
    """
    try:
        yield
    except WORKER_LOST as error:
        raise InputError(
            f"Another worker stopped, so this one stops too: {first_line(error)} Start all workers again with the "
            f"same command; {_state(run)}."
        ) from None
    except (OSError, tf.errors.OpError, UnicodeDecodeError) as error:
        if _is_of_parsing(error):
            raise InputError(
                "Every record of the input files must be an example with the same features as the first. One is "
                f"not; `albert inspect FILES --verify` names it. Prepare that file again; {_state(run)}."
            ) from None
        if isinstance(error, tf.errors.DataLossError):
            raise InputError(
                "The input files must be intact. One is damaged; `albert inspect FILES --verify` names it. Copy "
                f"or prepare that file again; {_state(run)}."
            ) from None
        reason = disk_full(error)
        if reason is None:
            raise
        raise InputError(
            f"The disk of {run} is full: {reason}. Free some space and use the same command again; {_state(run)}."
        ) from None


def _is_of_parsing(error: Exception) -> bool:
    """Whether TensorFlow could not parse a record; it quotes the record, whose bytes may be no text."""
    message = error.object if isinstance(error, UnicodeDecodeError) else str(error).encode("utf-8", "replace")
    return b"Could not parse example input" in message or b"ParseExample" in message


def _state(run: Path) -> str:
    steps = steps_in(run / CHECKPOINTS)
    return f"the run resumes at step {steps[0]}" if steps else "there is no checkpoint yet"
