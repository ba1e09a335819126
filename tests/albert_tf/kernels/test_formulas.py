"""Each formula against NumPy or float64, compiled and not; and which formulas are compiled."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from albert_tf.kernels.formulas import (
    LARGE,
    SUMMANDS,
    attention_probabilities,
    cross_entropy,
    formulas_compiled_by,
    gelu_after_product,
    gelu_of_sum,
    gelu_with_gradient,
    in_one_pass,
    layer_norm_as_in_textbooks,
    normalize_rows,
    normalize_rows_without_gradient,
    normalize_sum,
    sum_in_blocks,
)
from albert_tf.model.layers import MASKED_SCORE
from albert_tf.pretraining.devices import formula_compiler
from tests.reference import albert as reference


@in_one_pass
def centred(x, by: float):
    """Sums and elementwise operations, several results, a constant."""
    return by * (x - ops.mean(x, axis=-1, keepdims=True)), ops.sum(ops.square(x), axis=0)


class Compiler:
    """Compiles nothing, but records the names of formulas."""

    def __init__(self):
        self.given = []

    def __call__(self, formula):
        self.given.append(formula.__name__)
        return formula


def compiled(x) -> list[str]:
    """The names of the formulas that the compiler received."""
    compiler = Compiler()
    with formulas_compiled_by(compiler):
        centred(x, 2.0)
    centred(x, 2.0)  # no longer
    return compiler.given


def test_only_large_arrays_are_compiled():
    assert compiled(np.zeros((LARGE // 64, 64), "float32")) == ["centred"]
    assert compiled(np.zeros((LARGE // 64 - 1, 64), "float32")) == []


def test_an_inner_scope_can_compile_nothing():
    outer = Compiler()
    with formulas_compiled_by(outer), formulas_compiled_by(None):
        centred(np.zeros((LARGE, 1), "float32"), 2.0)
    assert outer.given == []


def test_an_error_ends_the_scope():
    outer = Compiler()
    with pytest.raises(KeyError), formulas_compiled_by(outer):
        raise KeyError
    centred(np.zeros((LARGE, 1), "float32"), 2.0)
    assert outer.given == []


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("length", [SUMMANDS - 1, SUMMANDS, 3 * SUMMANDS])
def test_sums(axis, length):
    """With and without a compiler, of lengths that are and are not a multiple of a block."""
    x = np.random.default_rng(0).normal(size=[length if n == axis else 5 for n in range(3)])
    for compiler in (None, Compiler()):
        with formulas_compiled_by(compiler):
            np.testing.assert_allclose(sum_in_blocks(x, axis), x.sum(axis=axis, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("size", [1001, LARGE + 1])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 1e-2)])
def test_gelu_with_gradient(dtype, error, size):
    x = tf.cast(tf.linspace(-6.0, 6.0, size), dtype)
    exact = np.asarray(x, "float64")
    with tf.GradientTape() as tape:
        tape.watch(x)
        with formulas_compiled_by(formula_compiler()):
            value = gelu_with_gradient(x)
    slope = (reference.gelu_tanh(exact + 1e-6) - reference.gelu_tanh(exact - 1e-6)) / 2e-6
    np.testing.assert_allclose(
        np.asarray(value, "float64"), reference.gelu_tanh(exact), rtol=error, atol=error
    )
    found = tape.gradient(value, x, 2 * tf.ones_like(x))
    np.testing.assert_allclose(np.asarray(found, "float64"), 2 * slope, rtol=error, atol=error)


ROWS = [5, LARGE // 24 // SUMMANDS * SUMMANDS + SUMMANDS]  # of which arrays (rows, 24) are compiled if large


def values_and_gradients(function, arrays, upstreams) -> list[np.ndarray]:
    """The outputs of a function and its gradients for all arrays, with the formulas compiled; float64."""
    with formulas_compiled_by(formula_compiler()), tf.GradientTape() as tape:
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
        gelu_of_sum,
        lambda product, bias: tf.nn.gelu(product + bias, approximate=True),
        [product, bias],
        dy,
        error,
    )


@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 1e-2)])
def test_gelu_after_product(dtype, error):
    x = tf.cast(tf.linspace(-6.0, 6.0, 1001), dtype)
    exact = reference.gelu_tanh(np.asarray(x, "float64"))
    np.testing.assert_allclose(np.asarray(gelu_after_product(x), "float64"), exact, rtol=error, atol=error)


B, N, T = 2, 3, 16
SCALE = 0.125


@pytest.mark.parametrize("P", [4, LARGE // (B * N * T) + 1])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-6), ("bfloat16", 1e-2)])
def test_attention_probabilities_and_their_gradient(dtype, error, P):
    """Against NumPy, in float64; compiled if the array is large."""
    rng = np.random.default_rng(0)
    scores, upstream = (tf.cast(rng.normal(0, 9, (B, N, P, T)), dtype) for _ in range(2))
    mask = np.zeros((B, 1, 1, T))
    mask[0, ..., 5:] = MASKED_SCORE
    with formulas_compiled_by(formula_compiler()), tf.GradientTape() as tape:
        tape.watch(scores)
        probs = attention_probabilities(scores, tf.cast(mask, dtype), SCALE, training=True)
        gradient = tape.gradient(probs, scores, upstream)

    exact_scores, dprobs = (np.asarray(array, "float64") for array in (scores, upstream))
    exact = reference.softmax(exact_scores * SCALE + mask)
    exact_gradient = exact * (dprobs - (dprobs * exact).sum(-1, keepdims=True)) * SCALE
    assert probs.dtype == gradient.dtype == dtype
    np.testing.assert_allclose(np.asarray(probs, "float64"), exact, atol=error)
    np.testing.assert_allclose(np.asarray(gradient, "float64"), exact_gradient, atol=5 * error)
    np.testing.assert_array_equal(np.asarray(gradient, "float64")[0, ..., 5:], 0)


def test_attention_probabilities_are_the_same_in_inference():
    scores = tf.random.stateless_normal((B, N, T, T), [0, 1])
    mask = tf.zeros((B, 1, 1, T))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(mask)
        training, inference = (
            attention_probabilities(scores, mask, SCALE, training) for training in (True, False)
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
def test_normalize_rows_and_its_gradients(dtype, error, rows):
    rng = np.random.default_rng(0)
    x, dy = (tf.cast(rng.normal(2, 3, (rows, 24)), dtype) for _ in range(2))
    gamma, beta = (tf.constant(rng.normal(size=24), "float32") for _ in range(2))
    assert_as_in_float64(
        lambda *arrays: normalize_rows(*arrays, 1e-12),
        lambda *arrays: plain_layer_norm(*arrays, 1e-12),
        [x, gamma, beta],
        dy,
        error,
    )


@pytest.mark.slow
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("bfloat16", 4e-2)])
def test_normalize_sum_and_its_gradients(dtype, error, rows):
    rng = np.random.default_rng(0)
    x, product, dy = (tf.cast(rng.normal(2, 3, (rows, 24)), dtype) for _ in range(3))
    bias = tf.cast(rng.normal(size=24), dtype)
    gamma, beta = (tf.constant(rng.normal(size=24), "float32") for _ in range(2))
    assert_as_in_float64(
        lambda *arrays: normalize_sum(*arrays, 1e-12),
        lambda x, product, bias, *others: plain_layer_norm(x + (product + bias), *others, 1e-12),
        [x, product, bias, gamma, beta],
        dy,
        error,
    )


@pytest.mark.parametrize("form", [contextlib.nullcontext, layer_norm_as_in_textbooks])
@pytest.mark.parametrize("mean", [0, 100])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-4), ("bfloat16", 2e-2)])
def test_normalize_rows_without_gradient(dtype, error, mean, form):
    rng = np.random.default_rng(0)
    x = tf.cast(rng.normal(mean, 3, (5, 24)), dtype)
    gamma, beta = (tf.constant(rng.normal(size=24), "float32") for _ in range(2))
    weights = {"norm/gamma": np.asarray(gamma), "norm/beta": np.asarray(beta)}
    with form():
        found = normalize_rows_without_gradient(x, gamma, beta, 1e-12)
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
        lambda logits: cross_entropy(logits, labels), [logits], (upstream, tf.zeros((2, P)))
    )
    probs = reference.softmax(np.asarray(logits, "float64"))
    expected = np.eye(V)[labels]
    np.testing.assert_allclose(losses, -np.log((probs * expected).sum(-1)), rtol=error, atol=error)
    np.testing.assert_array_equal(are_best, np.asarray(logits, "float32").argmax(-1) == labels)
    exact_gradient = (probs - expected) * np.asarray(upstream, "float64")[..., None]
    np.testing.assert_allclose(gradient, exact_gradient, rtol=error, atol=error)
