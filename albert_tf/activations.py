"""The functions between the two products of a feed-forward part (`hidden_act`)."""

import math

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.formulas import in_one_pass


def activation(config: AlbertConfig):
    """The function that `hidden_act` names, from any array to an array of the same shape."""
    return {
        "gelu": lambda x: ops.gelu(x, approximate=True),
        "gelu_erf": lambda x: ops.gelu(x, approximate=False),
        "relu": ops.relu,
    }[config.hidden_act]


@ops.custom_gradient
def gelu_product(x, matrix):
    """gelu(x) @ matrix in training, with the tanh form of gelu; for x (rows, F) and a matrix (F, H) like it.

    It keeps x alone for the backward pass, which computes gelu again: that costs far less than a product.
    Automatic differentiation would keep six arrays of this size, and in bfloat16 round after each operation.
    """

    def backward(*upstreams, upstream=None):  # backends pass it either way
        dy = upstreams[0] if upstream is None else upstream
        activated, dx = _gelu_and_gradient(x, ops.matmul(dy, ops.transpose(matrix)))
        return dx, ops.matmul(ops.transpose(activated), dy)

    return ops.matmul(_gelu(x), matrix), backward


@in_one_pass
def _gelu(x):
    wide = ops.cast(x, "float32")
    return ops.cast(wide * _gate(wide), x.dtype)


@in_one_pass
def _gelu_and_gradient(x, upstream):
    """gelu of x, and upstream times its slope."""
    wide = ops.cast(x, "float32")
    gate = _gate(wide)
    value = wide * gate
    slope = gate + value * (1.0 - gate) * (2 * ROOT + 6 * 0.044715 * ROOT * ops.square(wide))
    return ops.cast(value, x.dtype), ops.cast(ops.cast(upstream, "float32") * slope, x.dtype)


def _gate(x):
    """What gelu multiplies x by."""
    return 0.5 * ops.tanh(x * (ROOT + 0.044715 * ROOT * ops.square(x))) + 0.5


ROOT = math.sqrt(2 / math.pi)
