"""The loop over training steps between two logged ones, and their speed."""

import os
import time
from collections.abc import Iterator

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.flops import gpu_peak, tpu_peak, training_flops
from albert_tf.optimizers import WarmupPolynomialDecay
from albert_tf.pretraining.phases import ResolvedPhase
from albert_tf.pretraining.settings import PretrainingSettings
from albert_tf.pretraining.steps import TrainStep, step_metrics, zero_sums
from albert_tf.training.session import RunSession

SECONDS_PER_CALL = 2.0  # of the training step: short enough to move the progress bar and to answer a signal


class Speed:
    """Turns durations into the figures that are logged.

    Args:
      phase: the run's present phase.
      config: the model's.
      peak: FLOP/s of all devices together, None if unknown.
    """

    def __init__(self, phase: ResolvedPhase, config: AlbertConfig, peak: float | None):
        batch_size, T = phase.train_batch_size, phase.max_seq_length
        self._tokens_per_step = batch_size * T
        self._flops_per_step = batch_size * training_flops(config, T, phase.max_predictions_per_seq)
        self._peak = peak

    def values(self, steps: int, seconds: float, waited: float) -> dict[str, float]:
        """The figures of `steps` steps that took `seconds`, `waited` of them for batches.

        Returns:
          `tokens_per_second`, padding included; `flops_per_second`, those that the model needs (`training_flops`);
          `share_of_peak`, their share of the peak, if it is known; `input_wait_share`, the share of time
          spent waiting.
        """
        flops = steps * self._flops_per_step / seconds
        return {
            "tokens_per_second": steps * self._tokens_per_step / seconds,
            "flops_per_second": flops,
            **({"share_of_peak": flops / self._peak} if self._peak else {}),
            "input_wait_share": min(waited / seconds, 1.0),
        }


def device_peak(strategy: tf.distribute.Strategy) -> float | None:
    """Peak FLOP/s of all devices together by the makers' tables (`albert_tf.flops`), None if they list none."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return tpu_peak(os.environ.get("TPU_ACCELERATOR_TYPE", ""))
    if not tf.config.list_logical_devices("GPU"):
        return None
    details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
    peak = gpu_peak(details.get("device_name", ""))
    return peak * strategy.num_replicas_in_sync if peak else None


class StepLoop:
    """Takes steps in calls of about `SECONDS_PER_CALL`, and records their means.

    Args:
      step: the training step.
      batches: an iterator that starts with the batch of the run's next step.
      speed: turns durations into figures.
      schedule: the learning rate over the whole run, for the log.
      session: the open run.
      steps_per_call: a fixed number of steps per call, None to choose it by the time that they take.
      labels: values to add to every logged line.
    """

    def __init__(
        self,
        step: TrainStep,
        batches: Iterator,
        speed: Speed,
        schedule: WarmupPolynomialDecay,
        session: RunSession,
        steps_per_call: int | None,
        labels: dict[str, float],
    ):
        self._step, self._batches, self._speed = step, batches, speed
        self._schedule, self._session, self._labels = schedule, session, labels
        self._adapts, self._per_call = steps_per_call is None, steps_per_call or 1
        # Builds the graph without taking a step, so that no speed includes it.
        step(batches, tf.constant(0), zero_sums())

    def run(self, start: int, target: int) -> tuple[int, dict[str, float], bool]:
        """Takes the steps from `start` to `target`, fewer if there is a SIGTERM, and records their means.

        Returns:
          The step that was reached, the logged values, and whether to stop because of a SIGTERM.
        """
        began, step, stop, sums = time.monotonic(), start, False, zero_sums()
        while step < target and not stop:
            call_began, taken = time.monotonic(), min(self._per_call, target - step)
            sums = self._step(self._batches, tf.constant(taken), sums)
            sums["examples"].numpy()  # waits for the call to finish
            step += taken
            self._session.progress.advance(step)
            stop = self._session.preemption.agreed()
            if self._adapts:
                self._per_call = max(1, int(taken * SECONDS_PER_CALL / (time.monotonic() - call_began)))
        values = {
            **step_metrics(sums),
            "learning_rate": float(self._schedule(step - 1)),
            **self._step.trust_ratios(),
            **self._speed.values(step - start, time.monotonic() - began, float(sums["input_wait"])),
            **self._labels,
        }
        seconds_per_step = (time.monotonic() - began) / (step - start)
        self._session.record_step(step, values, (self._schedule.num_train_steps - step) * seconds_per_step)
        return step, values, stop


def next_logged_step(step: int, phase: ResolvedPhase, settings: PretrainingSettings) -> int:
    """The next step of a phase to log: a multiple of `log_steps`, a checkpoint, or the end of the phase.

    Checkpoints are logged too, so that the means of a resumed run cover the same steps.
    """
    intervals = (settings.log_steps, settings.save_checkpoints_steps)
    return min(phase.end_step, *((step // interval + 1) * interval for interval in intervals))
