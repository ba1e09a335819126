"""The learning rate over a run: linear warm-up, then polynomial decay to zero."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="albert_tf")
class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """The original's schedule (optimization.py).

    During warm-up the rate is `learning_rate * step / num_warmup_steps`, so the first update has rate 0; after
    it, the rate is `learning_rate * (1 - step / num_train_steps) ** power`. Since the decay counts from step 0,
    the rate drops a little at the end of the warm-up.

    Args:
      learning_rate: the rate that the warm-up rises to.
      num_train_steps: the step at which the rate is 0.
      num_warmup_steps: length of the warm-up; 0 means none.
      power: of the decay; 1 is linear.
    """

    def __init__(
        self, learning_rate: float, num_train_steps: int, num_warmup_steps: int = 0, power: float = 1.0
    ):
        if num_train_steps < 1 or num_warmup_steps < 0:
            raise ValueError(
                "`num_train_steps` must be at least 1 and `num_warmup_steps` at least 0. "
                f"Received {num_train_steps} and {num_warmup_steps}."
            )
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps
        self.power = power

    def __call__(self, step):
        step = ops.cast(step, "float32")
        done = ops.minimum(step / self.num_train_steps, 1.0)
        rate = self.learning_rate * (1.0 - done) ** self.power
        warmup_rate = self.learning_rate * step / max(self.num_warmup_steps, 1)
        return ops.where(step < self.num_warmup_steps, warmup_rate, rate)

    def get_config(self):
        return {
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "power": self.power,
        }
