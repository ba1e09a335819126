"""What XLA compiles: whole steps on accelerators; on CPUs only formulas over arrays, never matrix products.

TensorFlow runs every operation of a formula by itself, on CPUs each as a pass over memory. XLA makes one pass of
all of them. Its matrix products are slower there than TensorFlow's, in bfloat16 by a factor of 2 to 3.5.
"""

import functools
from collections.abc import Callable

import keras
from keras import ops

# Elements of an array from which on a call of a compiled formula costs less than the passes that it saves.
LARGE = 1 << 16


def compiling_pays() -> bool:
    """Whether Keras `fit` should compile the model with XLA where it may choose (`jit_compile="auto"`)."""
    if keras.backend.backend() != "tensorflow":
        return True
    return any(keras.distribution.list_devices(kind) for kind in ("gpu", "tpu"))


def in_one_pass(formula: Callable) -> Callable:
    """The same function of arrays, compiled by itself where that pays: on CPUs, for large arrays of known shape.

    Shapes that differ from batch to batch are left to TensorFlow, since XLA compiles for each of them.

    Args:
      formula: elementwise operations and sums of arrays; no variables, no random numbers. The size of its first
        argument decides. Arguments that are no arrays are constants. It has no gradient of its own when compiled:
        wrap it in `keras.ops.custom_gradient`.
    """

    @functools.wraps(formula)
    def function(x, *others):
        by_itself = _is_large(x) and not compiling_pays() and compiles_for_cpus()
        return (_compiled(formula) if by_itself else formula)(x, *others)

    return function


def _is_large(x) -> bool:
    size = 1
    for length in ops.shape(x):
        if not isinstance(length, int):
            return False
        size *= length
    return size >= LARGE


@functools.cache
def _compiled(formula: Callable) -> Callable:
    import tensorflow as tf

    return tf.function(formula, jit_compile=True)


@functools.cache
def compiles_for_cpus() -> bool:
    """Whether this TensorFlow has XLA for CPUs: tensorflow-tpu has not."""
    import tensorflow as tf

    with tf.init_scope():
        try:
            tf.function(lambda: tf.zeros(()), jit_compile=True)()
        except tf.errors.NotFoundError:
            return False
    return True
