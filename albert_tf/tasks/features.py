"""Examples as arrays of ids without padding, which batches add.

[CLS] a [SEP] b [SEP], token_type_ids 0 up to the first [SEP] and 1 after it
"""

from collections.abc import Sequence

import numpy as np

from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Tokenizer

Features = dict[str, np.ndarray]
SURROUNDING_SYMBOLS = 2  # [CLS] and [SEP] around a text
LABEL_SET = "label_set"  # the feature that has a number for each output, not for each token
IMPOSSIBLE = -1e30  # the logit of a token or an option that cannot be chosen; float32 only
PADDING = {"p_mask": 1, "word_index": -1}  # what batches pad these features with; all others with 0


def joined(a: np.ndarray, b: np.ndarray | None, tokenizer: Tokenizer, max_seq_length: int) -> Features:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP], truncated to `max_seq_length` at the end of the longer text."""
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    if b is None:
        a = a[: max_seq_length - 2]
        ids = np.empty(len(a) + 2, np.int32)
        ids[0], ids[1:-1], ids[-1] = cls_id, a, sep_id
        return {"input_ids": ids, "token_type_ids": np.zeros(len(ids), np.int32)}
    length_a, length_b = pair_lengths(len(a), len(b), max_seq_length - 3)
    ids = np.empty(length_a + length_b + 3, np.int32)
    ids[0], ids[length_a + 1], ids[-1] = cls_id, sep_id, sep_id
    ids[1 : length_a + 1] = a[:length_a]
    ids[length_a + 2 : -1] = b[:length_b]
    types = np.zeros(len(ids), np.int32)
    types[length_a + 2 :] = 1
    return {"input_ids": ids, "token_type_ids": types}


def pair_lengths(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    """The lengths of two texts after dropping tokens one by one from the longer (if equal, the second) text.

    >>> pair_lengths(10, 4, 9), pair_lengths(10, 9, 9), pair_lengths(3, 4, 9)
    ((5, 4), (5, 4), (3, 4))
    """
    if length_a + length_b <= room:
        return length_a, length_b
    if min(length_a, length_b) <= room // 2:
        return (room - length_b, length_b) if length_a > length_b else (length_a, room - length_a)
    return room - room // 2, room // 2


def is_per_token(name: str, values: np.ndarray) -> bool:
    """Whether a feature's last axis is that of the tokens, which batches pad."""
    return values.ndim > 0 and name != LABEL_SET


def stacked(rows: list[Features], pad_id: int) -> Features:
    """Sequences as one example: input_ids, input_mask and token_type_ids, int32 (N, T), padded to the longest."""
    length = max((len(row["input_ids"]) for row in rows), default=0)
    shape = (len(rows), length)
    stacked = {
        "input_ids": np.full(shape, pad_id, np.int32),
        "input_mask": np.zeros(shape, np.int32),
        "token_type_ids": np.zeros(shape, np.int32),
    }
    for i, row in enumerate(rows):
        size = len(row["input_ids"])
        stacked["input_mask"][i, :size] = 1
        for name, values in row.items():
            stacked[name][i, :size] = values
    return stacked


def check_length(max_seq_length: int, least: int) -> None:
    """Raises InputError if sequences have no room for a token beside the symbols."""
    if max_seq_length < least:
        raise InputError(f"`max_seq_length` must be at least {least}. Received {max_seq_length}.")


def class_number(label: str, labels: Sequence[str]) -> np.ndarray:
    """The number of a class, int32 []; InputError if there is no such class."""
    if label not in labels:
        raise InputError(f"A label must be one of {', '.join(labels)}. Received {label!r}.")
    return np.array(labels.index(label), np.int32)
