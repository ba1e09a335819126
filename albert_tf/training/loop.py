"""The loop over steps: when to log, when to save, how fast it goes."""

import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from albert_tf.models import pretraining_metrics
from albert_tf.training.run_log import RunLog, TrainingProgress
from albert_tf.training.settings import PretrainingSettings
from albert_tf.training.steps import SUMS


def train(
    train_steps: Callable,
    batches: Iterator,
    *,
    start_step: int,
    tokens_per_step: int,
    learning_rate: Callable,
    settings: PretrainingSettings,
    log: RunLog,
    progress: TrainingProgress,
    save: Callable[[int], None],
) -> None:
    """Takes the steps from `start_step` to `settings.num_train_steps`.

    Args:
      train_steps: (batches, number of steps) -> sums, of `make_train_function`.
      batches: the iterator of batches, at the position of `start_step`.
      start_step: how many steps have been taken before.
      tokens_per_step: positions in a batch, padding included.
      learning_rate: step -> rate, for the log.
      settings: for `num_train_steps`, `log_steps` and `save_checkpoints_steps`.
      log: gets the means since the last logged step.
      progress: likewise.
      save: called with the step where a checkpoint is due.
    """
    train_steps(batches, tf.constant(0))  # builds the graph and takes no step, so that no rate counts it
    step, window = start_step, Window(start_step)
    while step < settings.num_train_steps:
        target = _next_stop(step, settings)
        began = time.monotonic()
        sums = train_steps(batches, tf.constant(target - step))
        step = target
        window.add(sums, time.monotonic() - began)
        if _due(step, settings.log_steps, settings):
            values = {
                **window.means(),
                "learning_rate": float(learning_rate(step - 1)),
                "tokens_per_second": (step - window.start) * tokens_per_step / window.seconds,
            }
            log.write(step, values)
            seconds_left = (settings.num_train_steps - step) * tokens_per_step / values["tokens_per_second"]
            progress.update(step, values, seconds_left)
            window = Window(step)
        if _due(step, settings.save_checkpoints_steps, settings):
            save(step)


class Window:
    """Sums over the steps since the last logged one, and the seconds that the steps alone took."""

    def __init__(self, start: int):
        self.start = start
        self.seconds = 0.0
        self._sums = dict.fromkeys(SUMS, 0.0)

    def add(self, sums: dict, seconds: float) -> None:
        """Adds what one call of `train_steps` returned, and how long it took."""
        self._sums = {name: value + float(sums[name]) for name, value in self._sums.items()}
        self.seconds += seconds

    def means(self) -> dict[str, float]:
        """`pretraining_metrics` of the window."""
        return pretraining_metrics(self._sums)


def _next_stop(step: int, settings: PretrainingSettings) -> int:
    """The next step at which the host has something to do."""
    intervals = (settings.log_steps, settings.save_checkpoints_steps)
    return min(settings.num_train_steps, *((step // interval + 1) * interval for interval in intervals))


def _due(step: int, interval: int, settings: PretrainingSettings) -> bool:
    return step % interval == 0 or step == settings.num_train_steps
