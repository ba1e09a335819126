"""Layers with constants for weights, which TensorFlow computes faster on CPUs.

The fastest kernels want matrices in blocks. TensorFlow rearranges a constant once, and calls a slower kernel for
a variable. It computes LayerNorm in one kernel if gamma and beta are constants, but a product with its bias only
if the bias is a variable.
"""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from albert_tf.checkpoints.savedmodels import CONSTANT, WEIGHTS
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.training.tensorflow_steps import not_inlined


def layer_with_constants(layer: Callable, variables: Sequence[keras.Variable]) -> Callable:
    """A layer with its weights as constants: `make_layer_function` of `albert_tf.kernels.Kernels`.

    The function is called, not copied into the graph, so that all layers that share their parameters share the
    rearranged matrices, too.

    Args:
      layer: function of (x, *values).
      variables: the variables that hold `values`, in the same order.
    """

    @not_inlined
    def function(x):
        return layer(x, *map(_value, variables))

    return function


def _value(variable: keras.Variable) -> tf.Tensor:
    if not _is_constant(variable):
        return tf.convert_to_tensor(variable.value)
    with tf.init_scope():
        value = variable.numpy()
    return tf.constant(value, name=CONSTANT + variable.path.split("/", 1)[1])


def _is_constant(variable: keras.Variable) -> bool:
    """Matrices, gamma and beta become constants, but not int8 matrices, which every call converts."""
    return variable.name in ("gamma", "beta") or (len(variable.shape) == 2 and variable.dtype != "int8")


def leave_out_constants(root: tf.train.Checkpoint, encoder: AlbertEncoder) -> None:
    """Removes the variables that are now constants from `root`; the remaining ones cannot be trained further."""
    constants = {id(variable.value) for variable in encoder.layer_variables() if _is_constant(variable)}
    root.variables = [variable for variable in root.variables if id(variable) not in constants]
    root.trainable_variables = []
    if hasattr(root, WEIGHTS):
        named = getattr(root, WEIGHTS).items()
        setattr(root, WEIGHTS, {name: variable for name, variable in named if id(variable) not in constants})
