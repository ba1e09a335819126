"""gelu and the product after it, in training: its value and the gradients that it computes itself."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.activations import gelu_product
from albert_tf.formulas import LARGE, formulas_compiled_by
from albert_tf.training.formula_compiler import formula_compiler
from tests.reference import albert as reference

F, H = 11, 3


@pytest.mark.parametrize("rows", [91, LARGE // F + 1])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 1e-2)])
def test_gelu_product_and_its_gradients(dtype, error, rows):
    x = tf.cast(tf.reshape(tf.linspace(-6.0, 6.0, rows * F), (rows, F)), dtype)
    rng = np.random.default_rng(0)
    matrix, dy = (tf.cast(rng.normal(size=shape), dtype) for shape in ((F, H), (rows, H)))
    with formulas_compiled_by(formula_compiler()):
        with tf.GradientTape() as tape:
            tape.watch([x, matrix])
            product = gelu_product(x, matrix)
        found = [product, *tape.gradient(product, [x, matrix], dy)]
    x, matrix, dy = (np.asarray(array, "float64") for array in (x, matrix, dy))
    activated = reference.gelu_tanh(x)
    slope = (reference.gelu_tanh(x + 1e-6) - reference.gelu_tanh(x - 1e-6)) / 2e-6
    for one, exact in zip(found, (activated @ matrix, dy @ matrix.T * slope, activated.T @ dy), strict=True):
        np.testing.assert_allclose(np.asarray(one, "float64"), exact, atol=error * np.abs(exact).max())
