"""Probabilities of attention and the gradient that they compute themselves."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.encoder import MASKED_SCORE
from albert_tf.model.formulas import LARGE, formulas_compiled_by
from albert_tf.model.softmax import attention_probabilities
from albert_tf.pretraining.devices import formula_compiler

B, N, T = 2, 3, 16
SCALE = 0.125


@pytest.mark.parametrize("P", [4, LARGE // (B * N * T) + 1])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-6), ("bfloat16", 1e-2)])
def test_probabilities_and_their_gradient(dtype, error, P):
    """Against NumPy, in float64; compiled where the array is large."""
    rng = np.random.default_rng(0)
    scores, upstream = (tf.cast(rng.normal(0, 9, (B, N, P, T)), dtype) for _ in range(2))
    mask = np.zeros((B, 1, 1, T))
    mask[0, ..., 5:] = MASKED_SCORE
    with formulas_compiled_by(formula_compiler()), tf.GradientTape() as tape:
        tape.watch(scores)
        probs = attention_probabilities(scores, tf.cast(mask, dtype), SCALE, training=True)
        gradient = tape.gradient(probs, scores, upstream)

    exact_scores, dprobs = (np.asarray(array, "float64") for array in (scores, upstream))
    logits = exact_scores * SCALE + mask
    exact = np.exp(logits - logits.max(-1, keepdims=True))
    exact /= exact.sum(-1, keepdims=True)
    exact_gradient = exact * (dprobs - (dprobs * exact).sum(-1, keepdims=True)) * SCALE
    assert probs.dtype == gradient.dtype == dtype
    np.testing.assert_allclose(np.asarray(probs, "float64"), exact, atol=error)
    np.testing.assert_allclose(np.asarray(gradient, "float64"), exact_gradient, atol=5 * error)
    np.testing.assert_array_equal(np.asarray(gradient, "float64")[0, ..., 5:], 0)


def test_inference_has_the_same_probabilities():
    scores = tf.random.stateless_normal((B, N, T, T), [0, 1])
    mask = tf.zeros((B, 1, 1, T))
    training, inference = (
        attention_probabilities(scores, mask, SCALE, training) for training in (True, False)
    )
    np.testing.assert_array_equal(training, inference)
