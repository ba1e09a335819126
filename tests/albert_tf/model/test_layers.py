"""Dropout; what the layers compute is tested through the encoder."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from albert_tf.model import layers


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("rate", [0.002, 0.1])
def test_dropout_has_its_rate_in_every_dtype(dtype, rate):
    seeds = keras.random.SeedGenerator(3)
    x = ops.cast(keras.random.uniform((1 << 10, 1 << 10), 0.5, 1.5, seed=4), dtype)
    y = layers.dropout(x, rate, seeds, training=True)
    assert y.dtype == x.dtype
    given, dropped = (np.asarray(ops.cast(array, "float32")) for array in (x, y))
    assert np.mean(dropped == 0) == pytest.approx(rate, rel=0.05)
    assert dropped.mean() == pytest.approx(given.mean(), rel=2e-3 if rate == 0.1 else 4e-3)  # 1 / .998 is 1


@pytest.mark.xla
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dropout_masks_follow_from_the_state_of_the_seeds(dtype, jit_compile):
    """Also where shapes are not known, and in gradients; each call moves the state on."""
    seeds, x = keras.random.SeedGenerator(3), ops.ones((6, 7), dtype)

    @tf.function(input_signature=[tf.TensorSpec((None, 7), dtype)], jit_compile=jit_compile)
    def function(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layers.dropout(x, 0.5, seeds, training=True)
        return y, tape.gradient(y, x)

    def two_masks():
        seeds.state.assign([3, 0])
        drawn = [function(x) for _ in range(2)]
        assert seeds.state.numpy().tolist() == [3, 2]
        for y, gradient in drawn:
            np.testing.assert_array_equal(y, gradient)
        return np.array([np.asarray(ops.cast(y, "float32")) for y, _ in drawn])

    first = two_masks()
    assert (first[0] != first[1]).any()
    np.testing.assert_array_equal(two_masks(), first)
