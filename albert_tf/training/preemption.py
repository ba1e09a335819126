"""SIGTERM, by which schedulers take a machine back, as a question that the loop asks between calls."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf

from data_prep.errors import Preempted


class Preemption:
    """Within this context SIGTERM ends nothing, but is remembered.

    Args:
      strategy: with several workers all stop where one of them was told to, or the others would wait for it.

    Attributes:
      requested: whether this process was told to end.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self.requested = False
        self._count = _counter(strategy)

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():  # signals are for that one
            self._before = signal.signal(signal.SIGTERM, self._remember)
        return self

    def __exit__(self, *_):
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)

    def agreed(self) -> bool:
        """Whether any worker was told to end; all workers must ask together."""
        return self.requested if self._count is None else self._count(self.requested) > 0

    def stop(self, step: int) -> Preempted:
        """The exception to raise once the checkpoint of `step` is saved; all workers get there together."""
        self.agreed()
        return Preempted(
            f"told to end (SIGTERM): step {step} is saved, and the same command goes on from there"
        )

    def watched(self, batches: Iterable, step: int) -> Iterator:
        """Evaluation batches; with one worker, ended by SIGTERM since the checkpoint of `step` is saved."""
        for batch in batches:
            if self.requested and self._count is None:
                raise self.stop(step)
            yield batch

    def _remember(self, *_) -> None:
        self.requested = True


def _counter(strategy: tf.distribute.Strategy) -> Callable[[bool], int] | None:
    """A function that counts in how many workers its argument is true; None where there is only one."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return None

    @tf.function
    def count(value):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: value + 0), axis=None)

    return lambda value: int(count(tf.constant(int(value))))
