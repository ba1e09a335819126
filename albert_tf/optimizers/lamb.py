"""LAMB (You et al. 2020, Algorithm 2) as ALBERT's pretraining uses it (paper, section 4.1)."""

import keras
from keras import ops

from albert_tf.optimizers.adamw import AdamW, adamw_update, moments


def lamb_update(weight, gradient, m, v, learning_rate, *, beta_1, beta_2, epsilon, weight_decay):
    """One step of the original's LAMBOptimizer for one array: AdamW's update scaled by |weight| / |update|.

    There is no bias correction, the decay is inside the ratio, and the ratio is 1 if either norm is 0.

    Returns:
      The new (weight, m, v), all of the shape of `weight`.
    """
    m, v = moments(gradient, m, v, beta_1, beta_2)
    update = m / (ops.sqrt(v) + epsilon) + weight_decay * weight
    return weight - learning_rate * trust_ratio(weight, update) * update, m, v


def trust_ratio(weight, update):
    """|weight| / |update|, a scalar; 1 if either is 0."""
    weight_norm, update_norm = ops.norm(weight), ops.norm(update)
    both = ops.logical_and(weight_norm > 0, update_norm > 0)
    return ops.where(both, weight_norm / ops.where(both, update_norm, 1.0), 1.0)


@keras.saving.register_keras_serializable(package="albert_tf")
class Lamb(AdamW):
    """LAMB as published with ALBERT (`lamb_update`), with the arguments of `AdamW`.

    Excluded variables are updated by `adamw_update` without decay. `keras.optimizers.Lamb` differs: it corrects
    bias, decays outside the trust ratio, and excludes nothing.

    >>> schedule = WarmupPolynomialDecay(0.00176, num_train_steps=125_000, num_warmup_steps=3_125)
    >>> optimizer = Lamb(schedule, global_clipnorm=1.0)
    """

    def __init__(self, learning_rate=0.00176, *, name: str = "lamb", **kwargs):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)

    def new_values(self, weight, gradient, m, v, learning_rate, *, excluded: bool):
        """Computes the update of one array; `excluded` arrays have neither weight decay nor trust ratio."""
        hyperparameters = {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}
        if excluded:
            return adamw_update(weight, gradient, m, v, learning_rate, **hyperparameters, weight_decay=0.0)
        return lamb_update(
            weight, gradient, m, v, learning_rate, **hyperparameters, weight_decay=self.weight_decay_rate
        )

    def trust_ratios(self):
        """Returns the current trust ratios, one for each array that is not excluded, to monitor training."""
        return ops.stack(
            [
                trust_ratio(weight, m / (ops.sqrt(v) + self.epsilon) + self.weight_decay_rate * weight)
                for weight, m, v, excluded in zip(
                    map(ops.convert_to_tensor, self._trainable_variables),
                    map(ops.convert_to_tensor, self._m),
                    map(ops.convert_to_tensor, self._v),
                    self._excluded,
                    strict=True,
                )
                if not excluded
            ]
        )
