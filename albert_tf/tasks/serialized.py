"""Serialized tf.train.Example messages as the inputs of a model."""

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.tasks.graph_checks import checked_inputs, feature_checks
from albert_tf.tasks.hub_names import from_hub_names

EXAMPLES = tf.TensorSpec([None], tf.string, name="examples")


def example_batch(examples: tf.Tensor, config: AlbertConfig) -> dict[str, tf.Tensor]:
    """The inputs of a task model, int32 (B, T), parsed from serialized messages, string (B,), and checked."""
    return from_hub_names(checked_inputs(parsed_examples(examples), config))


def parsed_examples(examples: tf.Tensor) -> dict[str, tf.Tensor]:
    """The inputs of a TF2 text encoder, padded to the longest, from serialized messages, string (B,).

    Their features are those of example files: `input_ids`, `input_mask` (default: all 1), and the token types as
    `segment_ids` or `token_type_ids` (default: all 0). Other features are ignored.

    Returns:
      `input_word_ids`, `input_mask` and `input_type_ids`, int32 (B, T).
    """
    names = ("input_ids", "input_mask", "segment_ids", "token_type_ids")
    features = tf.io.parse_example(examples, {name: tf.io.RaggedFeature(tf.int64) for name in names})
    lengths = {name: rows.row_lengths() for name, rows in features.items()}
    T = tf.maximum(tf.reduce_max(lengths["input_ids"]), 1)  # of no rows, the maximum is negative
    shape = tf.stack([tf.shape(examples)[0], T])
    with tf.control_dependencies(feature_checks(lengths)):
        arrays = {name: tf.cast(rows.to_tensor(0, shape=shape), tf.int32) for name, rows in features.items()}
    tokens = tf.sequence_mask(lengths["input_ids"], T, tf.int32)
    return {
        "input_word_ids": arrays["input_ids"],
        "input_mask": tf.where(lengths["input_mask"][:, tf.newaxis] > 0, arrays["input_mask"], tokens),
        "input_type_ids": arrays["segment_ids"] + arrays["token_type_ids"],
    }
