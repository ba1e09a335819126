"""The features of a pretraining example: one list that the writer and the reader both follow."""

from typing import Literal, NamedTuple


class Feature(NamedTuple):
    """One feature of a tf.train.Example.

    Attributes:
      dtype: "int64" or "float32", the two that a tf.train.Example has for numbers.
      length: how many values every example has.
      flag: the setting that the length comes from, for messages; empty where it is fixed.
    """

    dtype: Literal["int64", "float32"]
    length: int
    flag: str


def pretraining_features(max_seq_length: int, max_predictions_per_seq: int) -> dict[str, Feature]:
    """The features under the original's names, which its files and ours share.

    Args:
      max_seq_length: T.
      max_predictions_per_seq: P; 0 for unmasked examples (`--masking=dynamic`), without masked_lm_*.

    Returns:
      Name -> feature. `next_sentence_labels` is the sentence order: 0 in order, 1 swapped.

    >>> pretraining_features(512, 77)["masked_lm_weights"]
    Feature(dtype='float32', length=77, flag='max_predictions_per_seq')
    """
    sequence = Feature("int64", max_seq_length, "max_seq_length")
    predictions = Feature("int64", max_predictions_per_seq, "max_predictions_per_seq")
    masked = {
        "masked_lm_positions": predictions,
        "masked_lm_ids": predictions,
        "masked_lm_weights": predictions._replace(dtype="float32"),
    }
    return {
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
        "token_boundary": sequence,
        **(masked if max_predictions_per_seq else {}),
        "next_sentence_labels": Feature("int64", 1, ""),
    }
