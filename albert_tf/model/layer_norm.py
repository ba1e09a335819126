"""LayerNorm whose backward pass keeps one array."""

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.model.formulas import in_one_pass, summed


def layer_norm(config: AlbertConfig, *, dtype) -> "LayerNorm":
    """LayerNorm; its name is what excludes its parameters from weight decay and trust ratio."""
    return LayerNorm(epsilon=config.layer_norm_epsilon, name="layer_norm", dtype=dtype)


class LayerNorm(keras.layers.LayerNormalization):
    """LayerNormalization of arrays (rows, width), in training with a backward pass of its own."""

    def call(self, x, training=False):
        return normalise(x, self.gamma, self.beta, self.epsilon) if training else super().call(x)


def normalise(x, gamma, beta, epsilon: float):
    """LayerNorm of x (rows, width), computed in float32.

    It keeps the normalised array, in the dtype of x, and one number a row for the backward pass, where
    automatic differentiation would keep four float32 arrays.
    """

    @ops.custom_gradient
    def with_gradient(x, gamma, beta):
        y, normal, scale = _normalise(x, gamma, beta, epsilon)

        def backward(*upstreams, upstream=None):  # backends pass it either way
            return _gradients(upstreams[0] if upstream is None else upstream, normal, scale, gamma)

        return y, backward

    # As values: a function with a gradient of its own must not read variables.
    return with_gradient(x, ops.cast(gamma, "float32"), ops.cast(beta, "float32"))


@in_one_pass
def _normalise(x, gamma, beta, epsilon: float):
    """LayerNorm of x, and what its gradients need: the normalised array and each row's scale (rows, 1)."""
    centred, width = ops.cast(x, "float32"), ops.shape(x)[1]
    centred = centred - summed(centred, 1) / width
    scale = ops.rsqrt(summed(ops.square(centred), 1) / width + epsilon)
    normal = centred * scale
    return ops.cast(normal * gamma + beta, x.dtype), ops.cast(normal, x.dtype), scale


@in_one_pass
def _gradients(upstream, normal, scale, gamma):
    """Of x, gamma and beta."""
    dy, normal = ops.cast(upstream, "float32"), ops.cast(normal, "float32")
    dnormal, width = dy * gamma, ops.shape(normal)[1]
    along = normal * (summed(dnormal * normal, 1) / width)
    dx = (dnormal - summed(dnormal, 1) / width - along) * scale
    return ops.cast(dx, upstream.dtype), summed(dy * normal, 0)[0], summed(dy, 0)[0]
