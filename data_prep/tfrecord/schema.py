"""The features of a pretraining example, defined once for the writer and the readers."""

from typing import Literal, NamedTuple


class Feature(NamedTuple):
    """One feature of a tf.train.Example.

    Attributes:
      dtype: "int64" or "float32", the numeric types of a tf.train.Example.
      length: the number of values in every example; None if it varies.
      flag: the setting that determines the length, for error messages; empty if the length is fixed.
    """

    dtype: Literal["int64", "float32"]
    length: int | None
    flag: str


def pretraining_features(max_seq_length: int, max_predictions_per_seq: int) -> dict[str, Feature]:
    """The features, named as in the files of the original.

    Args:
      max_seq_length: T.
      max_predictions_per_seq: P; 0 for unmasked examples (`--masking=dynamic`), without masked_lm_*.
        (With sentence-order prediction these are stored as chunks: `chunk_features`.)

    Returns:
      Name -> feature. `next_sentence_labels` is 0 for segments in order and 1 for swapped ones.

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


def chunk_features() -> dict[str, Feature]:
    """The features of a chunk, from which the reader draws another pair in every epoch (`--masking=dynamic`).

    Nothing is padded or truncated: a cut may keep any part of a long sentence.

    Returns:
      Name -> feature. `input_ids` are the n tokens of consecutive sentences, without symbols; `token_boundary` [n]
      is 1 where a word starts; `sentence_starts` are the places where each sentence but the first starts.
    """
    varying = Feature("int64", None, "")
    return {"input_ids": varying, "token_boundary": varying, "sentence_starts": varying}
