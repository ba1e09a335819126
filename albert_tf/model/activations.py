"""The functions between the two products of a feed-forward part (`hidden_act`)."""

import math

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.model.formulas import in_one_pass


def activation(config: AlbertConfig, training: bool = False):
    """The function that `hidden_act` names, from any array to an array of the same shape."""
    return {
        # Without a gradient to compute, the product before it, its bias and gelu are one kernel on CPUs.
        "gelu": gelu_with_slope if training else lambda x: ops.gelu(x, approximate=True),
        "gelu_erf": lambda x: ops.gelu(x, approximate=False),
        "relu": ops.relu,
    }[config.hidden_act]


@ops.custom_gradient
def gelu_with_slope(x):
    """The tanh form of gelu, which keeps its slope for the backward pass and nothing else.

    Automatic differentiation would keep five arrays of this size and pass over them twice as often; in
    bfloat16 it would also round after each operation.
    """
    value, slope = _gelu_and_slope(x)

    def backward(*upstreams, upstream=None):  # backends pass it either way
        return (upstreams[0] if upstream is None else upstream) * slope

    return value, backward


@in_one_pass
def _gelu_and_slope(x):
    wide = ops.cast(x, "float32")
    root, square = math.sqrt(2 / math.pi), ops.square(wide)
    gate = 0.5 * ops.tanh(wide * (root + 0.044715 * root * square)) + 0.5
    value = wide * gate
    slope = gate + value * (1.0 - gate) * (2 * root + 6 * 0.044715 * root * square)
    return ops.cast(value, x.dtype), ops.cast(slope, x.dtype)
