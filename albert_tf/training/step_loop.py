"""The loop over training steps between two logged ones."""

import time
from collections.abc import Callable, Iterator

from albert_tf.optimizers import WarmupPolynomialDecay
from albert_tf.training.devices import Devices
from albert_tf.training.steps import OptimizerStep

SECONDS_PER_CALL = 2.0  # of the training step: short enough to move the progress bar and to answer a signal
_STEPS_PER_CALL_OF_WORKERS = 10


def iterations_per_loop(flag: int | None, devices: Devices) -> int | None:
    """Steps in a call of the training step; None to choose the number by the time that steps take.

    All workers must take the same number, or their all-reduces would not match.
    """
    return flag or (_STEPS_PER_CALL_OF_WORKERS if devices.processes > 1 else None)


class StepLoop:
    """Takes steps in calls of about `SECONDS_PER_CALL`, and computes the figures to log.

    Args:
      step: the training step.
      batches: an iterator that starts with the batch of the run's next step.
      figures: (sums, number of steps, seconds) -> the values to log.
      schedule: the learning rate over the whole run, for the log.
      steps_per_call: a fixed number of steps per call, None to choose it by the time that they take.
    """

    def __init__(
        self,
        step: OptimizerStep,
        batches: Iterator,
        figures: Callable[[dict, int, float], dict[str, float]],
        schedule: WarmupPolynomialDecay,
        steps_per_call: int | None,
    ):
        self._step, self._batches, self._figures, self._schedule = step, batches, figures, schedule
        self._adapts, self._per_call = steps_per_call is None, steps_per_call or 1
        # Builds the graph without taking a step, so that the first speed does not include tracing. It still
        # includes XLA's compilation, which the first step starts.
        step(batches, 0, step.zero_sums())

    def run(
        self, start: int, target: int, stops: Callable[[int], bool]
    ) -> tuple[int, dict[str, float] | None, bool]:
        """Takes the steps from `start` to `target`, fewer if `stops` says so.

        Fewer steps have no values. The resumed run logs the rest of them, so that it has as many lines as an
        uninterrupted run.

        Args:
          start: steps that the run has taken.
          target: steps to have taken at the end.
          stops: called after every call with the steps taken; returns whether to stop.

        Returns:
          The step that was reached, the values to log if it is `target`, and whether `stops` said so.
        """
        began, step, stop, sums = time.monotonic(), start, False, self._step.zero_sums()
        while step < target and not stop:
            call_began, taken = time.monotonic(), min(self._per_call, target - step)
            sums = self._step(self._batches, taken, sums)
            float(sums["steps"])  # waits for the call to finish
            step += taken
            stop = stops(step)
            if self._adapts:
                self._per_call = max(1, int(taken * SECONDS_PER_CALL / (time.monotonic() - call_began)))
        # Of fewer steps too: an error that it raises ends the run before their weights are saved.
        figures = self._figures(sums, step - start, time.monotonic() - began)
        if step < target:
            return step, None, stop
        return step, {**figures, "learning_rate": float(self._schedule(step - 1))}, stop
