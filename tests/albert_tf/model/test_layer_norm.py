"""LayerNorm in training: its value and the gradients that it computes itself."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.formulas import LARGE, formulas_compiled_by
from albert_tf.model.layer_norm import normalise
from albert_tf.pretraining.devices import formula_compiler


@pytest.mark.parametrize("rows", [5, LARGE // 24 + 1])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 3e-2)])
def test_normalise_and_its_gradients(dtype, error, rows):
    """Against automatic differentiation in float64."""
    rng = np.random.default_rng(0)
    x, dy = (tf.cast(rng.normal(2, 3, (rows, 24)), dtype) for _ in range(2))
    gamma, beta = (tf.constant(rng.normal(size=24), "float32") for _ in range(2))

    def value_and_gradients(function, arrays, upstream):
        with tf.GradientTape() as tape:
            tape.watch(arrays)
            value = function(*arrays, 1e-12)
        return value, *tape.gradient(value, arrays, upstream)

    def plain(x, gamma, beta, epsilon):
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + epsilon) * gamma + beta

    with formulas_compiled_by(formula_compiler()):
        found = value_and_gradients(normalise, (x, gamma, beta), dy)
    exact = value_and_gradients(
        plain, tuple(tf.cast(array, "float64") for array in (x, gamma, beta)), tf.cast(dy, "float64")
    )
    for one, other in zip(found, exact, strict=True):
        scale = np.abs(other).max()  # gradients of gamma and beta are sums over the rows
        np.testing.assert_allclose(np.asarray(one, "float64"), other, rtol=error, atol=error * scale)
