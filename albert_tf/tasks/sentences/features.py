"""Texts, pairs, and pairs with negatives as arrays."""

from collections.abc import Sequence

import numpy as np

from albert_tf.tasks.features import Features, check_length, joined, stacked
from albert_tf.tasks.preprocessor import (
    Preprocessor,
    as_rows,
    as_texts,
    columns_of,
    each_row,
    is_list,
    one_label_each,
)
from albert_tf.tasks.sentences.rows import SentenceExample
from albert_tf.tasks.values import as_label, as_number
from data_prep.errors import InputError

_MOST_COLUMNS = 9


class SentencePreprocessor(Preprocessor):
    """Takes texts, or a tuple of columns: first texts, those that belong to them, and any number of negatives.

    A column of negatives has a text or a list of texts for each pair. Labels are, of pairs, how near their texts
    are; of single texts, their classes. If a score is outside 0 to 1, all scores of the call are scaled so that
    the lowest becomes 0 and the highest 1.
    """

    def examples(self, x, y=None, classes=()):
        columns = columns_of(x, *range(1, _MOST_COLUMNS))
        texts = list(map(as_texts, columns[:2]))
        negatives = [_lists(column) for column in columns[2:]]
        rows = [
            (*row[: len(texts)], *sum(row[len(texts) :], ())) for row in zip(*texts, *negatives, strict=True)
        ]
        labels: list = [None] * len(rows)
        if y is not None:
            convert = _class if len(columns) == 1 else _score
            labels = each_row(convert, one_label_each(y, len(rows)))
        if len(columns) > 1 or y is not None:
            each_row(_check_texts, rows)
        return [SentenceExample(str(i), *row) for i, row in enumerate(zip(rows, labels, strict=True))]

    def arrays(self, examples, classes=()):
        """For each example input_ids and token_type_ids, int32 (T,); of several texts with input_mask, (C, T).

        All have the most texts C of an example; the mask of those that an example lacks is 0. `label` is a score,
        float32 (), and `group` the number of a class, int32 ().
        """
        check_length(self.max_seq_length, 3)
        texts = list(dict.fromkeys(text for example in examples for text in example.texts))
        encoded = dict(zip(texts, self.tokenizer.encode_batch(texts, self.max_seq_length), strict=True))
        most = max((len(example.texts) for example in examples), default=1)
        scores = [example.label for example in examples if isinstance(example.label, float)]
        low, high = (min(scores), max(scores)) if scores else (0.0, 1.0)
        if (0 <= low and high <= 1) or low == high:
            low, high = 0.0, 1.0
        groups: dict[str, int] = {}
        nothing = dict.fromkeys(("input_ids", "token_type_ids"), np.zeros(0, np.int32))
        features: list[Features] = []
        for example in examples:
            rows = [
                joined(encoded[text], None, self.tokenizer, self.max_seq_length) for text in example.texts
            ]
            rows += [nothing] * (most - len(rows))
            arrays = rows[0] if most == 1 else stacked(rows, self.tokenizer.pad_id)
            if isinstance(example.label, float):
                arrays["label"] = np.array((example.label - low) / (high - low), np.float32)
            elif example.label is not None:
                arrays["group"] = np.array(groups.setdefault(example.label, len(groups)), np.int32)
            features.append(arrays)
        return features


def _lists(column) -> list[tuple[str, ...]]:
    """A column of texts, or of lists of texts, as tuples."""
    rows = as_rows(column)
    if any(is_list(row) for row in rows):
        return [tuple(as_texts(row)) for row in rows]
    return [(text,) for text in as_texts(rows)]


def _check_texts(texts: Sequence[str]) -> None:
    if any(not text.strip() for text in texts):
        raise InputError(f"A text to train with must not be empty. Received {texts!r}.")


def _class(label) -> str:
    return as_label(label.decode("utf-8", "replace") if isinstance(label, bytes) else label)


def _score(label) -> float:
    number = as_number(label)
    if number is None:
        raise InputError(f"The label of a pair must be a finite number. Received {label!r}.")
    return number
