"""XLA for the formulas of a step that is not compiled as a whole, as on CPUs.

TensorFlow runs every operation of a formula by itself, each as a pass over memory; XLA makes one pass of them. Its
matrix products are slower on CPUs than TensorFlow's, in bfloat16 by a factor of 2 to 3.5, so they stay outside.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from albert_tf.model.encoder import compiling_pays


def formula_compiler() -> Callable | None:
    """The compiler for `formulas_compiled_by`; None on accelerators and without XLA for CPUs."""
    return None if compiling_pays() or not compiles_for_cpus() else compile_formula


@functools.cache
def compile_formula(formula: Callable) -> Callable:
    """The formula compiled by XLA, once for each combination of shapes."""
    return tf.function(formula, jit_compile=True)


@functools.cache
def compiles_for_cpus() -> bool:
    """Whether this TensorFlow has XLA for CPUs: tensorflow-tpu has not."""
    with tf.init_scope():
        try:
            tf.function(lambda: tf.zeros(()), jit_compile=True)()
        except tf.errors.NotFoundError:
            return False
    return True
