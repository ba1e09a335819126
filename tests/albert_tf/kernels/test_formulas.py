"""Each formula against NumPy or float64, compiled and not; and which formulas are compiled."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from albert_tf.kernels.formulas import LARGE, SUMMANDS, Formulas, block_sum
from albert_tf.model.layers import MASKED_SCORE
from albert_tf.model.pretrainer import cross_entropy
from albert_tf.pretraining.devices import formula_compiler
from tests.reference import albert as reference


def centred(x, by: float, in_blocks: bool):
    """Sums and elementwise operations, several results, a constant."""
    return by * (x - ops.mean(x, axis=-1, keepdims=True)), ops.sum(ops.square(x), axis=0)


def formulas_compiled() -> Formulas:
    """Formulas that XLA compiles if their arrays are large."""
    formulas = Formulas()
    formulas.compiler = formula_compiler()
    return formulas


@pytest.mark.parametrize(("rows", "expected"), [(LARGE // 64, ["centred"]), (LARGE // 64 - 1, [])])
def test_only_large_arrays_are_compiled(rows, expected):
    formulas, given = Formulas(), []
    formulas.compiler = lambda formula: given.append(formula.__name__) or formula
    formulas.compute(centred, np.zeros((rows, 64), "float32"), 2.0)
    assert given == expected


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("length", [SUMMANDS - 1, SUMMANDS, 3 * SUMMANDS])
def test_sums(axis, length):
    """In blocks and not, of lengths that are and are not a multiple of a block."""
    x = np.random.default_rng(0).normal(size=[length if n == axis else 5 for n in range(3)])
    for in_blocks in (False, True):
        np.testing.assert_allclose(block_sum(x, axis, in_blocks), x.sum(axis=axis, keepdims=True), rtol=1e-6)


ROWS = [5, LARGE // 24 // SUMMANDS * SUMMANDS + SUMMANDS]  # of which arrays (rows, 24) are compiled if large


def values_and_gradients(function, arrays, upstreams) -> list[np.ndarray]:
    """The outputs of a function and its gradients for all arrays, float64."""
    with tf.GradientTape() as tape:
        tape.watch(arrays)
        outputs = function(*arrays)
    gradients = tape.gradient(outputs, arrays, upstreams)
    return [np.asarray(array, "float64") for array in (*tf.nest.flatten(outputs), *gradients)]


def assert_as_in_float64(formula, plain, arrays, upstream, error: float):
    """Compares a formula and its gradients with a plain one in float64."""
    found = values_and_gradients(formula, arrays, upstream)
    wide = [tf.cast(array, "float64") for array in arrays]
    exact = values_and_gradients(plain, wide, tf.cast(upstream, "float64"))
    for one, other in zip(found, exact, strict=True):
        # Relative to the largest: gradients of vectors are sums over the rows.
        np.testing.assert_allclose(one, other, rtol=error, atol=error * np.abs(other).max())


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 2e-2)])
def test_gelu_of_sum(dtype, error, rows):
    rng = np.random.default_rng(0)
    product, bias, dy = (tf.cast(rng.normal(0, 2, shape), dtype) for shape in ((rows, 24), 24, (rows, 24)))
    assert_as_in_float64(
        formulas_compiled().gelu_of_sum,
        lambda product, bias: tf.nn.gelu(product + bias, approximate=True),
        [product, bias],
        dy,
        error,
    )


@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 1e-2)])
def test_gelu(dtype, error):
    x = tf.cast(tf.linspace(-6.0, 6.0, 1001), dtype)
    exact = reference.gelu_tanh(np.asarray(x, "float64"))
    np.testing.assert_allclose(np.asarray(Formulas().gelu(x), "float64"), exact, rtol=error, atol=error)


B, N, T = 2, 3, 16
SCALE = 0.125


@pytest.mark.parametrize("P", [4, LARGE // (B * N * T) + 1])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-6), ("bfloat16", 1e-2)])
def test_softmax_and_its_gradient(dtype, error, P):
    """Against NumPy, in float64; compiled if the array is large."""
    rng = np.random.default_rng(0)
    scores, upstream = (tf.cast(rng.normal(0, 9, (B, N, P, T)), dtype) for _ in range(2))
    mask = np.zeros((B, 1, 1, T))
    mask[0, ..., 5:] = MASKED_SCORE
    with tf.GradientTape() as tape:
        tape.watch(scores)
        probs = formulas_compiled().softmax(scores, tf.cast(mask, dtype), SCALE, training=True)
    gradient = tape.gradient(probs, scores, upstream)

    exact_scores, dprobs = (np.asarray(array, "float64") for array in (scores, upstream))
    exact = reference.softmax(exact_scores * SCALE + mask)
    exact_gradient = exact * (dprobs - (dprobs * exact).sum(-1, keepdims=True)) * SCALE
    assert probs.dtype == gradient.dtype == dtype
    np.testing.assert_allclose(np.asarray(probs, "float64"), exact, atol=error)
    np.testing.assert_allclose(np.asarray(gradient, "float64"), exact_gradient, atol=5 * error)
    np.testing.assert_array_equal(np.asarray(gradient, "float64")[0, ..., 5:], 0)


def test_softmax_is_the_same_in_inference():
    scores = tf.random.stateless_normal((B, N, T, T), [0, 1])
    mask = tf.zeros((B, 1, 1, T))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(mask)
        training, inference = (
            Formulas().softmax(scores, mask, SCALE, training) for training in (True, False)
        )
        first = inference[..., 0], training[..., 0]
    np.testing.assert_array_equal(training, inference)
    # What is kept for the backward pass of training is not enough for the mask.
    of_inference, of_training = (np.abs(tape.gradient(each, mask)).max() for each in first)
    assert of_inference > 0
    assert of_training == 0


def plain_layer_norm(x, gamma, beta, epsilon):
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + epsilon) * gamma + beta


@pytest.mark.parametrize("rows", [5, LARGE // 24 + 1])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 3e-2)])
def test_layer_norm_and_its_gradients(dtype, error, rows):
    rng = np.random.default_rng(0)
    x, dy = (tf.cast(rng.normal(2, 3, (rows, 24)), dtype) for _ in range(2))
    gamma, beta = (tf.constant(rng.normal(size=24), "float32") for _ in range(2))
    assert_as_in_float64(
        lambda *arrays: formulas_compiled().layer_norm(*arrays, 1e-12, training=True),
        lambda *arrays: plain_layer_norm(*arrays, 1e-12),
        [x, gamma, beta],
        dy,
        error,
    )


@pytest.mark.slow
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 4e-2)])
def test_layer_norm_of_sum_and_its_gradients(dtype, error, rows):
    rng = np.random.default_rng(0)
    x, product, dy = (tf.cast(rng.normal(2, 3, (rows, 24)), dtype) for _ in range(3))
    bias = tf.cast(rng.normal(size=24), dtype)
    gamma, beta = (tf.constant(rng.normal(size=24), "float32") for _ in range(2))
    assert_as_in_float64(
        lambda *arrays: formulas_compiled().layer_norm_of_sum(*arrays, 1e-12),
        lambda x, product, bias, *others: plain_layer_norm(x + (product + bias), *others, 1e-12),
        [x, product, bias, gamma, beta],
        dy,
        error,
    )


@pytest.mark.parametrize("as_in_textbooks", [False, True])
@pytest.mark.parametrize("mean", [0, 100])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-4), ("bfloat16", 2e-2)])
def test_layer_norm_without_gradient(dtype, error, mean, as_in_textbooks):
    rng = np.random.default_rng(0)
    x = tf.cast(rng.normal(mean, 3, (5, 24)), dtype)
    gamma, beta = (tf.constant(rng.normal(size=24), "float32") for _ in range(2))
    weights = {"norm/gamma": np.asarray(gamma), "norm/beta": np.asarray(beta)}
    formulas = Formulas()
    formulas.textbook_layer_norm = as_in_textbooks
    found = formulas.layer_norm(x, gamma, beta, 1e-12, training=False)
    assert found.dtype == dtype
    exact = reference.layer_norm(np.asarray(x, "float64"), weights, "norm")
    np.testing.assert_allclose(np.asarray(found, "float64"), exact, rtol=error, atol=error)


@pytest.mark.slow
@pytest.mark.parametrize("V", [24, 25])
@pytest.mark.parametrize("P", [5, LARGE // 24 // 2 + 1])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 1e-2)])
def test_cross_entropy_and_its_gradient(dtype, error, P, V):
    """Against float64; few distinct logits, so that most labels are tied with others."""
    rng = np.random.default_rng(0)
    logits, labels = tf.cast(rng.integers(-3, 4, (2, P, V)), dtype), rng.integers(0, V, (2, P))
    upstream = tf.constant(rng.normal(size=(2, P)), "float32")
    losses, are_best, gradient = values_and_gradients(
        lambda logits: cross_entropy(logits, labels, formulas_compiled()),
        [logits],
        (upstream, tf.zeros((2, P))),
    )
    probs = reference.softmax(np.asarray(logits, "float64"))
    expected = np.eye(V)[labels]
    np.testing.assert_allclose(losses, -np.log((probs * expected).sum(-1)), rtol=error, atol=error)
    np.testing.assert_array_equal(are_best, np.asarray(logits, "float32").argmax(-1) == labels)
    exact_gradient = (probs - expected) * np.asarray(upstream, "float64")[..., None]
    np.testing.assert_allclose(gradient, exact_gradient, rtol=error, atol=error)
