"""The loop over steps: when to log, when to save, how fast it goes."""

import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from albert_tf.models import pretraining_metrics
from albert_tf.training.run_log import RunLog, TrainingProgress
from albert_tf.training.settings import PretrainingSettings
from albert_tf.training.steps import zero_sums

SECONDS_PER_CALL = 2.0  # in which a bar still moves and a signal is still answered


def train(
    train_steps: Callable,
    batches: Iterator,
    *,
    start_step: int,
    tokens_per_step: int,
    learning_rate: Callable,
    iterations_per_loop: int | None,
    settings: PretrainingSettings,
    log: RunLog,
    progress: TrainingProgress,
    save: Callable[[int], None],
) -> None:
    """Takes the steps from `start_step` to `settings.num_train_steps`.

    Args:
      train_steps: (batches, number of steps, sums) -> sums, of `make_train_function`.
      batches: the iterator of batches, at the position of `start_step`.
      start_step: how many steps have been taken before.
      tokens_per_step: positions in a batch, padding included.
      learning_rate: step -> rate, for the log.
      iterations_per_loop: steps a call; None for as many as take `SECONDS_PER_CALL`.
      settings: for `num_train_steps`, `log_steps` and `save_checkpoints_steps`.
      log: gets the means since the last logged step.
      progress: likewise; its bar moves after every call.
      save: called with the step where a checkpoint is due.
    """
    train_steps(
        batches, tf.constant(0), zero_sums()
    )  # builds the graph and takes no step, so that no rate counts it
    step, per_call = start_step, iterations_per_loop or 1
    while step < settings.num_train_steps:
        target = _next_stop(step, settings)
        steps, sums, began = target - step, zero_sums(), time.monotonic()
        while step < target:
            call_began, taken = time.monotonic(), min(per_call, target - step)
            sums = train_steps(batches, tf.constant(taken), sums)
            sums["examples"].numpy()  # waits for it
            step += taken
            progress.advance(step)
            if not iterations_per_loop:
                per_call = max(1, int(taken * SECONDS_PER_CALL / (time.monotonic() - call_began)))
        metrics = {name: float(value) for name, value in pretraining_metrics(sums).items()}
        tokens_per_second = steps * tokens_per_step / (time.monotonic() - began)
        values = {
            **metrics,
            "learning_rate": float(learning_rate(step - 1)),
            "tokens_per_second": tokens_per_second,
        }
        log.write(step, values)
        progress.update(step, values, (settings.num_train_steps - step) * tokens_per_step / tokens_per_second)
        if step % settings.save_checkpoints_steps == 0 or step == settings.num_train_steps:
            save(step)


def _next_stop(step: int, settings: PretrainingSettings) -> int:
    """The next step to log: the end, a multiple of `log_steps`, or a checkpoint.

    A checkpoint is logged too, so that the means of a resumed run are over the same steps.
    """
    intervals = (settings.log_steps, settings.save_checkpoints_steps)
    return min(settings.num_train_steps, *((step // interval + 1) * interval for interval in intervals))
