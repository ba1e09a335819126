import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.activations import gelu_with_slope
from albert_tf.model.formulas import LARGE, formulas_compiled_by
from albert_tf.pretraining.devices import formula_compiler
from tests.reference import albert as reference


@pytest.mark.parametrize("size", [1001, LARGE + 1])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 1e-2)])
def test_gelu_with_slope(dtype, error, size):
    x = tf.cast(tf.linspace(-6.0, 6.0, size), dtype)
    exact = np.asarray(x, "float64")
    with tf.GradientTape() as tape:
        tape.watch(x)
        with formulas_compiled_by(formula_compiler()):
            value = gelu_with_slope(x)
    slope = (reference.gelu_tanh(exact + 1e-6) - reference.gelu_tanh(exact - 1e-6)) / 2e-6
    np.testing.assert_allclose(
        np.asarray(value, "float64"), reference.gelu_tanh(exact), rtol=error, atol=error
    )
    found = tape.gradient(value, x, 2 * tf.ones_like(x))
    np.testing.assert_allclose(np.asarray(found, "float64"), 2 * slope, rtol=error, atol=error)
