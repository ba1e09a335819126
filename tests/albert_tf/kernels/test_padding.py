"""Removing padding does not change the outputs of tokens; those of padding are 0."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.config import AlbertConfig
from albert_tf.kernels.padding import Unpadding, remove_padding, restore_padding, restore_zero_padding
from albert_tf.model.encoder import AlbertEncoder
from tests.albert_tf.model.test_encoder import VARIANTS, make_encoder, random_inputs
from tests.selection import all_but_very_slow

MASK = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]])  # the last row is masked entirely, so all its tokens count


def test_places_of_tokens():
    x = tf.reshape(tf.range(9.0), (9, 1))
    unpadding = Unpadding(tf.constant(MASK))
    short = remove_padding(x, unpadding)
    np.testing.assert_array_equal(short[:, 0], [0, 1, 3, 4, 6, 7, 8])
    np.testing.assert_array_equal(restore_padding(short, unpadding)[:, 0], [0, 1, 1, 3, 4, 4, 6, 7, 8])
    np.testing.assert_array_equal(restore_zero_padding(short, unpadding)[:, 0], [0, 1, 0, 3, 4, 0, 6, 7, 8])


def test_without_unpadding_nothing_changes():
    x = tf.ones((4, 2))
    assert remove_padding(x, None) is restore_padding(x, None) is restore_zero_padding(x, None) is x


@given(st.integers(1, 4), st.integers(1, 6), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=50)
def test_restoring_undoes_removing(B, T, random):
    mask = np.array([[random.randint(0, 1) for _ in range(T)] for _ in range(B)])
    x = np.arange(1.0, 1 + 2 * B * T).reshape(-1, 2)
    unpadding = Unpadding(tf.constant(mask))
    back = np.asarray(restore_zero_padding(remove_padding(tf.constant(x), unpadding), unpadding))
    kept = back.any(axis=1)
    np.testing.assert_array_equal(back[kept], x[kept])
    assert (kept.reshape(B, T) >= mask.astype(bool)).all()
    assert kept.reshape(B, T)[:, 0].all()


def both_ways(encoder, inputs, **arguments) -> tuple[dict, dict]:
    """The outputs with and without padding, the latter from a graph for any shape."""
    encoder.unpad = False
    padded = encoder(inputs, **arguments)
    encoder.unpad = True
    specs = {name: tf.TensorSpec((None, None), tf.int32) for name in inputs}
    graph = tf.function(lambda batch: encoder(batch, **arguments), autograph=False, input_signature=[specs])
    return padded, graph({name: tf.constant(array) for name, array in inputs.items()})


@pytest.mark.slow
@pytest.mark.parametrize("name", all_but_very_slow(VARIANTS, ("all", "none", "3 groups, 2 inner")))
def test_tokens_are_the_same_and_padding_is_zero(tiny_config, name):
    config = AlbertConfig.from_dict({**tiny_config.to_dict(), **VARIANTS[name]})
    inputs = random_inputs(config)
    inputs["input_mask"][0, 4] = 0  # inside a row
    padded, unpadded = both_ways(make_encoder(config), inputs, intermediates=True)
    is_token = inputs["input_mask"].astype(bool)
    np.testing.assert_allclose(unpadded["pooled_output"], padded["pooled_output"], atol=1e-5)
    pairs = [(unpadded[name], padded[name]) for name in ("sequence_output", "embedding_output")]
    pairs += zip(unpadded["encoder_outputs"], padded["encoder_outputs"], strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(np.asarray(one)[is_token], np.asarray(other)[is_token], atol=1e-5)
        assert (np.asarray(one)[~is_token] == 0).all()


@pytest.mark.slow
def test_masked_rows_and_masked_first_tokens(tiny_config):
    inputs = random_inputs(tiny_config)
    inputs["input_mask"][1] = 0
    inputs["input_mask"][0, 0] = 0
    padded, unpadded = both_ways(make_encoder(tiny_config), inputs)
    np.testing.assert_allclose(unpadded["pooled_output"], padded["pooled_output"], atol=1e-5)
    np.testing.assert_allclose(unpadded["sequence_output"][1], padded["sequence_output"][1], atol=1e-5)


@pytest.mark.slow
def test_positions(tiny_config):
    positions = np.array([[0, 3, 8], [4, 4, 1], [0, 0, 0]], "int32")
    padded, unpadded = both_ways(make_encoder(tiny_config), random_inputs(tiny_config), positions=positions)
    for name, expected in padded.items():
        np.testing.assert_allclose(unpadded[name], expected, atol=1e-5)


def test_training_keeps_padding(tiny_config):
    """Training keeps padding, so shapes are fixed and the dropout masks are the same."""
    config = AlbertConfig.from_dict({**tiny_config.to_dict(), "hidden_dropout_prob": 0.5})
    inputs = random_inputs(config)
    one, other = (AlbertEncoder(config, seed=1, unpad=unpad) for unpad in (False, True))
    expected = one(inputs, training=True)["sequence_output"]
    np.testing.assert_array_equal(other(inputs, training=True)["sequence_output"], expected)


@pytest.mark.slow
def test_bfloat16(tiny_config):
    encoder = AlbertEncoder(tiny_config, seed=1, dtype="mixed_bfloat16")
    padded, unpadded = both_ways(encoder, random_inputs(tiny_config))
    one, other = (np.asarray(keras.ops.cast(each["pooled_output"], "float32")) for each in (padded, unpadded))
    np.testing.assert_allclose(one, other, atol=2e-2)
