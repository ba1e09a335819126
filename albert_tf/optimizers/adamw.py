"""AdamW as ALBERT and BERT use it: without bias correction, and with weight decay in the update."""

import re
from collections.abc import Mapping

import keras
from keras import ops

# The original clips the gradient to this global norm before every update.
CLIP_NORM = 1.0
# Parameters whose names match get neither weight decay nor, in LAMB, a trust ratio.
EXCLUDED = r"LayerNorm|layer_norm|bias"


def densify(gradient, variable):
    """The gradient as a dense array: TensorFlow returns the gradient of a lookup as a list of rows."""
    return ops.add(ops.zeros_like(variable), gradient) if hasattr(gradient, "dense_shape") else gradient


def moments(gradient, m, v, beta_1, beta_2):
    """Running means of the gradient and of its square."""
    return beta_1 * m + (1 - beta_1) * gradient, beta_2 * v + (1 - beta_2) * ops.square(gradient)


def adamw_update(weight, gradient, m, v, learning_rate, *, beta_1, beta_2, epsilon, weight_decay):
    """One step of the original's AdamWeightDecayOptimizer for one array.

    Returns:
      The new (weight, m, v), all of the shape of `weight`.
    """
    m, v = moments(gradient, m, v, beta_1, beta_2)
    update = m / (ops.sqrt(v) + epsilon) + weight_decay * weight
    return weight - learning_rate * update, m, v


@keras.saving.register_keras_serializable(package="albert_tf")
class AdamW(keras.optimizers.Optimizer):
    """AdamW as in the original (`adamw_update`): without bias correction, with weight decay in the update.

    Args:
      learning_rate: a float or a schedule; the default is BERT's, for batches of 256.
      weight_decay_rate: weight decay of variables that `exclude` does not match.
      beta_1: decay of the gradient's running mean.
      beta_2: decay of the squared gradient's running mean.
      epsilon: added to the root of the squared gradient's mean.
      exclude: regular expression; variables whose path contains a match have no weight decay.
      rate_factors: regular expressions, and the factor of the learning rate for variables whose path contains a
        match; the first match counts. All other variables have the factor 1.
      kwargs: passed to `keras.optimizers.Optimizer`, for example `global_clipnorm=1.0`.

    Raises:
      ValueError: `weight_decay`, Keras' name for another decay, is set.

    >>> model = TextClassifier.from_pretrained("runs/base", labels=("bad", "good"))
    >>> model.compile(AdamW(2e-5, global_clipnorm=1.0), metrics=["accuracy"])
    """

    def __init__(
        self,
        learning_rate=0.0001,
        *,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude: str = EXCLUDED,
        rate_factors: Mapping[str, float] | None = None,
        name: str = "adamw",
        **kwargs,
    ):
        if kwargs.get("weight_decay") is not None:
            raise ValueError(
                "`weight_decay` must be None: it is Keras' own decay, which covers biases, too. Received "
                f"{kwargs['weight_decay']}; give `weight_decay_rate`."
            )
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.exclude = exclude
        self.rate_factors = dict(rate_factors or {})

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._m = [self.add_variable_from_reference(variable, name="m") for variable in variables]
        self._v = [self.add_variable_from_reference(variable, name="v") for variable in variables]
        self._excluded = [re.search(self.exclude, variable.path) is not None for variable in variables]
        self._factors = [self._rate_factor(variable.path) for variable in variables]

    def moments_of(self, variable) -> tuple[keras.Variable, keras.Variable]:
        """The running means of a variable's gradient and of its square."""
        index = self._get_variable_index(variable)
        return self._m[index], self._v[index]

    def _rate_factor(self, path: str) -> float:
        return next((factor for name, factor in self.rate_factors.items() if re.search(name, path)), 1.0)

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        """Raises ValueError: the argument `exclude` says which variables have no weight decay."""
        raise ValueError(
            "Variables without weight decay must be named by `exclude` when the optimizer is made. Received "
            f"`exclude_from_weight_decay`; leave it out, since {self.exclude!r} is excluded already, or make the "
            "optimizer with another `exclude`."
        )

    def apply(self, grads, trainable_variables=None):
        """Like Keras' method, but clips dense gradients, which add up repeated rows of a lookup."""
        grads = list(grads)
        variables = self._trainable_variables if trainable_variables is None else list(trainable_variables)
        if len(grads) == len(variables):  # if not, Keras raises an error
            grads = [densify(gradient, variable) for gradient, variable in zip(grads, variables, strict=True)]
        super().apply(grads, trainable_variables)

    def _clip_gradients(self, grads):
        """Like Keras' method, but clips the sum over all replicas; Keras clips each replica's share."""
        all_reduce = getattr(self, "_all_reduce_sum_gradients", None)  # on TensorFlow
        if all_reduce is None or not (self.clipnorm or self.global_clipnorm or self.clipvalue):
            return super()._clip_gradients(grads)
        one = ops.ones((), grads[0].dtype)
        (replicas, _), *summed = all_reduce([(array, None) for array in (one, *grads)])
        clipped = super()._clip_gradients([gradient for gradient, _ in summed])
        return [
            ops.divide(gradient, replicas) for gradient in clipped
        ]  # Keras adds them up over all replicas

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        m, v = self._m[index], self._v[index]
        new_weight, new_m, new_v = self.new_values(
            ops.convert_to_tensor(variable),
            ops.cast(gradient, variable.dtype),
            ops.convert_to_tensor(m),
            ops.convert_to_tensor(v),
            ops.cast(learning_rate, variable.dtype) * self._factors[index],
            excluded=self._excluded[index],
        )
        self.assign(m, new_m)
        self.assign(v, new_v)
        self.assign(variable, new_weight)

    def new_values(self, weight, gradient, m, v, learning_rate, *, excluded: bool):
        """Computes the update of one array; `excluded` arrays have no weight decay."""
        return adamw_update(
            weight,
            gradient,
            m,
            v,
            learning_rate,
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
            weight_decay=0.0 if excluded else self.weight_decay_rate,
        )

    def update_averages(self) -> None:
        """Updates the moving averages of `use_ema` after a step that was taken with `update_step` alone."""
        self._update_model_variables_moving_average(self._trainable_variables)

    def get_config(self):
        return {
            **super().get_config(),
            "weight_decay_rate": self.weight_decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "exclude": self.exclude,
            "rate_factors": self.rate_factors,
        }
