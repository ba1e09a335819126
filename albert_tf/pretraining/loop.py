"""The loop over steps: when to log, when to save, when to go back, when to stop."""

import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from albert_tf.pretraining.milestones import Milestones
from albert_tf.pretraining.settings import PretrainingSettings
from albert_tf.pretraining.speed import Speed
from albert_tf.pretraining.steps import step_metrics, zero_sums

SECONDS_PER_CALL = 2.0  # in which a bar still moves and a signal is still answered


def train(
    train_steps: Callable,
    batches: Iterator,
    *,
    start_step: int,
    speed: Speed,
    learning_rate: Callable,
    more_metrics: Callable[[], dict[str, float]],
    iterations_per_loop: int | None,
    settings: PretrainingSettings,
    milestones: Milestones,
) -> None:
    """Takes the steps from `start_step` to `settings.num_train_steps`.

    Args:
      train_steps: (batches, number of steps, sums) -> sums, of `make_train_function`.
      batches: the iterator of batches, at the position of `start_step`.
      start_step: how many steps have been taken before.
      speed: makes figures of times.
      learning_rate: step -> rate, for the log.
      more_metrics: what else to log, asked at logged steps only.
      iterations_per_loop: steps a call; None for as many as take `SECONDS_PER_CALL`.
      settings: for `num_train_steps`, `log_steps` and `save_checkpoints_steps`.
      milestones: saves and evaluates where a checkpoint is due, and goes back where its guard wants to.
        Its log and progress get the means since the last logged step; its preemption is asked after every call
        whether to stop.

    Raises:
      Preempted: there was a SIGTERM, and a checkpoint has been saved.
    """
    guard, preemption, progress = milestones.guard, milestones.preemption, milestones.progress
    # Builds the graph and takes no step, so that no rate counts it.
    train_steps(batches, tf.constant(0), zero_sums())
    step, per_call, stop = start_step, iterations_per_loop or 1, preemption.agreed()
    saved = start_step
    while step < settings.num_train_steps and not stop:
        before, target = step, _next_stop(step, settings)
        sums, began = zero_sums(), time.monotonic()
        while step < target and not stop:
            call_began, taken = time.monotonic(), min(per_call, target - step)
            sums = train_steps(batches, tf.constant(taken), sums)
            sums["examples"].numpy()  # waits for it
            step += taken
            progress.advance(step)
            stop = preemption.agreed()
            if not iterations_per_loop:
                per_call = max(1, int(taken * SECONDS_PER_CALL / (time.monotonic() - call_began)))
        values = {
            **step_metrics(sums),
            "learning_rate": float(learning_rate(step - 1)),
            **more_metrics(),
            **speed.values(step - before, time.monotonic() - began, float(sums["input_wait"])),
        }
        milestones.log.write(step, values)
        progress.update(
            step, values, (settings.num_train_steps - step) * (time.monotonic() - began) / (step - before)
        )
        if guard.spiked(values):
            milestones.roll_back(step)
            saved = step
        elif step % settings.save_checkpoints_steps == 0 or step == settings.num_train_steps:
            milestones.save()
            saved = step
            if not stop:
                milestones.evaluate(step)
                stop = preemption.agreed()
    if stop and step < settings.num_train_steps:
        if saved != step:
            milestones.save()
        raise preemption.stop(step)


def _next_stop(step: int, settings: PretrainingSettings) -> int:
    """The next step to log: the end, a multiple of `log_steps`, or a checkpoint.

    A checkpoint is logged too, so that the means of a resumed run are over the same steps.
    """
    intervals = (settings.log_steps, settings.save_checkpoints_steps)
    return min(settings.num_train_steps, *((step // interval + 1) * interval for interval in intervals))
