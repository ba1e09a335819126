"""Assertions on the inputs of a SavedModel, as TensorFlow ops: each states the rule and what was received.

A failed assertion raises `tf.errors.InvalidArgumentError`. XLA leaves assertions out.
"""

from collections.abc import Sequence

import tensorflow as tf

from albert_tf.config import AlbertConfig

# A rule in words, whether it holds, and the values to print after "Received" if it does not.
Rule = tuple[str, tf.Tensor, Sequence]


def checked_inputs(inputs: dict[str, tf.Tensor], config: AlbertConfig) -> dict[str, tf.Tensor]:
    """The encoder's inputs, int32 (B, T) each, available once they are checked against the model's sizes.

    Args:
      inputs: `input_word_ids`, `input_mask` and `input_type_ids`; other entries are not checked.
      config: the model's sizes.
    """
    ids, mask, types = (inputs[name] for name in ("input_word_ids", "input_mask", "input_type_ids"))
    shapes = [tf.shape(array) for array in (ids, mask, types)]
    longest = config.max_position_embeddings
    is_same = tf.reduce_all((shapes[0] == shapes[1]) & (shapes[0] == shapes[2]))
    fits = (shapes[0][1] >= 1) & (shapes[0][1] <= longest)
    checks = _asserted(
        ("Token ids, mask and token types must have the same shape.", is_same, shapes),
        (f"Rows must have from 1 to {longest} tokens.", fits, [shapes[0][1]]),
        _in_range("Token ids", ids, config.vocab_size),
        _in_range("The mask", mask, 2),
        _in_range("Token types", types, config.type_vocab_size),
    )
    with tf.control_dependencies(checks):
        return tf.nest.map_structure(tf.identity, inputs)


def checked_positions(positions: tf.Tensor, hidden: tf.Tensor) -> tf.Tensor:
    """The masked positions, int32 (B, P), available once they are checked.

    Args:
      positions: int32 (B, P).
      hidden: the tokens' vectors, (B, T, H). They exist only if the token ids are valid, so that wrong ids are
        always reported first.
    """
    B, T, _ = tf.unstack(tf.shape(hidden))
    rows = tf.shape(positions)[0]
    checks = _asserted(
        ("Masked positions must have as many rows as token ids.", rows == B, [rows, B]),
        _in_range("Masked positions", positions, T),
    )
    with tf.control_dependencies(checks):
        return tf.identity(positions)


def checked_lengths(arrays: Sequence[tf.Tensor], names: Sequence[str]) -> list[tf.Tensor]:
    """Arrays, available once it is checked that they have the same first dimension."""
    lengths = [tf.shape(array)[0] for array in arrays]
    is_same = tf.reduce_all(tf.stack(lengths) == lengths[0])
    rule = f"{' and '.join(f'`{name}`' for name in names)} must have the same number of rows."
    with tf.control_dependencies(_asserted((rule, is_same, lengths))):
        return [tf.identity(array) for array in arrays]


def feature_checks(lengths: dict[str, tf.Tensor]) -> list[tf.Operation]:
    """Checks how many numbers each feature of parsed examples has, int (B,) by name; 0 if it is missing.

    `input_ids` must exist, other features must be missing or as long, and the token types have one name.
    """
    ids, both = lengths["input_ids"], lengths["segment_ids"] * lengths["token_type_ids"]
    rules: list[Rule] = [
        ("Each example must have `input_ids`.", tf.reduce_all(ids > 0), [ids]),
        (
            "An example must have `segment_ids` or `token_type_ids`, not both.",
            tf.reduce_all(both == 0),
            [both],
        ),
    ]
    for name, length in lengths.items():
        is_same = tf.reduce_all((length == 0) | (length == ids))
        rules.append((f"`{name}` must have as many numbers as `input_ids`.", is_same, [length, "for", ids]))
    return _asserted(*rules)


def _in_range(name: str, values: tf.Tensor, end) -> Rule:
    """The rule that integers are in [0, end). Its message shows the smallest and the largest."""
    smallest, largest = tf.reduce_min(values), tf.reduce_max(values)
    is_in_range = (smallest >= 0) & (largest < end)
    last = end - 1 if isinstance(end, int) else "T - 1"
    # Without values, the minimum is the largest integer and the maximum the smallest one, so the rule holds.
    return f"{name} must be from 0 to {last}.", is_in_range, [smallest, "to", largest]


def _asserted(*rules: Rule) -> list[tf.Operation]:
    # The raw op, because `tf.debugging.Assert` adds a branch to the graph for each assertion.
    return [
        tf.raw_ops.Assert(condition=holds, data=[f"{rule} Received", *received], summarize=10)
        for rule, holds, received in rules
    ]
