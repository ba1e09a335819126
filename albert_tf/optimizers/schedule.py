"""The learning rate over a run: linear warm-up, then decay to zero, at once or at the end of the run."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="albert_tf")
class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """The original's schedule (optimization.py), or with `num_decay_steps` warmup-stable-decay.

    During warm-up the rate is `learning_rate * (step - start_warmup_step) / num_warmup_steps`, so its first update
    has rate 0; before and after it, the rate is `learning_rate * (1 - step / num_train_steps) ** power`. Since the
    decay counts from step 0, the rate drops a little at the end of the warm-up. With `num_decay_steps` the rate
    stays at its peak until the decay over the last steps (Hu et al. 2024, section 4). Until then it does not
    depend on `num_train_steps`, so that the run can be prolonged.

    Args:
      learning_rate: peak learning rate, reached at the end of the warm-up.
      num_train_steps: the step at which the rate is 0.
      num_warmup_steps: number of warm-up steps; 0 means no warm-up.
      power: power of the decay; 1 is linear.
      start_warmup_step: step at which the warm-up begins, for a run that continues another with a new optimizer.
      num_decay_steps: number of steps of the decay, at the end. Default: all steps.

    >>> schedule = WarmupPolynomialDecay(0.1, num_train_steps=100, num_warmup_steps=10)
    >>> [round(float(schedule(step)), 3) for step in (0, 5, 10, 50, 100)]
    [0.0, 0.05, 0.09, 0.05, 0.0]
    >>> schedule = WarmupPolynomialDecay(0.1, num_train_steps=100, num_warmup_steps=10, num_decay_steps=20)
    >>> [round(float(schedule(step)), 3) for step in (0, 5, 10, 80, 90, 100)]
    [0.0, 0.05, 0.1, 0.1, 0.05, 0.0]
    """

    def __init__(
        self,
        learning_rate: float,
        num_train_steps: int,
        num_warmup_steps: int = 0,
        power: float = 1.0,
        start_warmup_step: int = 0,
        num_decay_steps: int | None = None,
    ):
        if num_train_steps < 1 or num_warmup_steps < 0 or start_warmup_step < 0:
            raise ValueError(
                "`num_train_steps` must be at least 1, `num_warmup_steps` and `start_warmup_step` at least 0. "
                f"Received {num_train_steps}, {num_warmup_steps} and {start_warmup_step}."
            )
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps
        self.power = power
        self.start_warmup_step = start_warmup_step
        self.num_decay_steps = num_decay_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        decay_steps = self.num_decay_steps or self.num_train_steps
        start = self.num_train_steps - decay_steps
        done = ops.clip((step - start) / decay_steps, 0.0, 1.0)
        rate = self.learning_rate * (1.0 - done) ** self.power
        warm = step - self.start_warmup_step
        warmup_rate = self.learning_rate * warm / max(self.num_warmup_steps, 1)
        return ops.where((warm >= 0) & (warm < self.num_warmup_steps), warmup_rate, rate)

    def get_config(self):
        return {
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "power": self.power,
            "start_warmup_step": self.start_warmup_step,
            "num_decay_steps": self.num_decay_steps,
        }
