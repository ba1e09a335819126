"""Calls with other things than a dict of integer arrays under the usual names."""

import dataclasses

import keras
import numpy as np
import pytest

from albert_tf.model import inputs
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer

IDS = np.array([[2, 7, 9, 3]])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (IDS, "called with a dict of integer arrays such as {'input_ids': ids}. Received an object of type"),
        ({"ids": IDS}, "The inputs must have `input_ids`. Received ids"),
        ({}, "The inputs must have `input_ids`. Received none"),
        ({"input_ids": IDS[0]}, r"`input_ids` must be integers \(B, T\). Received int64 \(4,\)\."),
        (
            {"input_ids": IDS.astype("float32")},
            r"Received float32 \(1, 4\); give `keras.Input` dtype=\"int32\"",
        ),
        (
            {"input_ids": np.zeros((1, 17), "int32")},
            "must not be longer than `max_position_embeddings`. Received 17 and 16",
        ),
        (
            {"input_ids": IDS, "input_mask": np.ones((1, 3), int)},
            r"`input_mask` must have the shape of `input_ids`. Received \(1, 3\) and \(1, 4\)",
        ),
        (
            {"input_ids": IDS, "token_type_ids": IDS[0]},
            r"`token_type_ids` must have .* Received \(4,\) and \(1, 4\)",
        ),
    ],
)
def test_other_inputs_are_refused(tiny_config, inputs, message):
    encoder = AlbertEncoder(tiny_config)
    for call in (encoder, encoder.attention_maps):
        with pytest.raises(ValueError, match=message):
            call(inputs)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("token_ids", "input_ids"),
        ("attention_mask", "input_mask"),
        ("padding_mask", "input_mask"),
        ("segment_ids", "token_type_ids"),
    ],
)
def test_names_of_other_libraries_are_refused(tiny_config, theirs, ours):
    """Ignored, they would mean that nothing is padding, or that all is one segment."""
    encoder, inputs = AlbertEncoder(tiny_config), {"input_ids": IDS, theirs: IDS}
    if ours == "input_ids":
        inputs.pop(ours)
    for call in (encoder, encoder.attention_maps):
        with pytest.raises(
            ValueError, match=f"`{ours}` is the name of the .* here. Received `{theirs}`; rename"
        ):
            call(inputs)


def test_pretraining_needs_positions(tiny_config):
    with pytest.raises(ValueError, match="must have `masked_lm_positions`. Received input_ids"):
        AlbertPretrainer(tiny_config)({"input_ids": IDS})


def test_symbolic_inputs(tiny_config):
    """Of a functional Keras model; sizes that are not known yet agree with any."""
    encoder = AlbertEncoder(tiny_config)
    ids = keras.Input((None,), dtype="int32")
    outputs = encoder({"input_ids": ids, "input_mask": keras.Input((4,), dtype="bool")})
    assert outputs["pooled_output"].shape == (None, tiny_config.hidden_size)
    with pytest.raises(ValueError, match=r"Received float32 \(None, None\); give `keras.Input` dtype"):
        encoder({"input_ids": keras.Input((None,))})


def test_padding_without_a_mask_is_reported_once(tiny_config, caplog):
    encoder, padded = AlbertEncoder(tiny_config), {"input_ids": np.array([[2, 7, 9, 3], [2, 3, 0, 0]])}
    inputs._report_padding.cache_clear()
    encoder({"input_ids": IDS})
    encoder({**padded, "input_mask": np.sign(padded["input_ids"])})
    assert not caplog.messages
    for ids in (padded["input_ids"], keras.ops.convert_to_tensor(padded["input_ids"])):
        encoder({"input_ids": ids})
    assert [message[:31] for message in caplog.messages] == ["`input_ids` end with padding (0"]


def test_a_model_of_one_token_type_reads_pairs(tiny_config):
    """Out of its table, the types would fail in inference, and count as no type at all in training."""
    encoder = AlbertEncoder(dataclasses.replace(tiny_config, type_vocab_size=1))
    for training in (False, True):
        keras.utils.set_random_seed(0)
        expected = encoder({"input_ids": IDS}, training=training)["sequence_output"]
        found = encoder({"input_ids": IDS, "token_type_ids": np.array([[0, 0, 1, 1]])}, training=training)
        np.testing.assert_array_equal(found["sequence_output"], expected)
