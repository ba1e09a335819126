"""Texts and pairs of texts as arrays."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from albert_tf.tasks.features import LABEL_SET, Features, check_length, class_number, joined
from albert_tf.tasks.preprocessor import (
    Preprocessor,
    as_texts,
    class_name,
    columns_of,
    each_row,
    in_order_of,
    is_list,
    label_lists,
    one_label_each,
)
from albert_tf.tasks.texts.rows import TextExample
from albert_tf.tasks.values import as_number
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Tokenizer


class TextPreprocessor(Preprocessor):
    """Takes texts, or a tuple of first and second texts: [CLS] a [SEP] b [SEP]."""

    def examples(self, x, y=None, classes=()):
        columns = [as_texts(part) for part in columns_of(x, 1, 2)]
        labels = [None] * len(columns[0]) if y is None else self.labels(y, len(columns[0]), classes)
        rows = zip(*columns, strict=True)
        return [
            TextExample(str(i), row[0], row[1] if len(row) > 1 else None, label)
            for i, (row, label) in enumerate(zip(rows, labels, strict=True))
        ]

    def labels(self, y, number: int, classes: Sequence[str]) -> list:
        """The label of each of `number` examples, as in `TextExample`."""
        convert = partial(class_name, classes=classes) if classes else _number
        return each_row(convert, one_label_each(y, number))

    def arrays(self, examples, classes=()):
        return text_features(examples, self.tokenizer, self.max_seq_length, classes)


class LabelSetPreprocessor(TextPreprocessor):
    """Takes texts or pairs; labels are a list of names for each, or an array (N, C) of 0 and 1."""

    def labels(self, y, number, classes):
        labels = label_lists(in_order_of(classes, y), number)
        return each_row(partial(self._names, classes=classes), labels)

    def _names(self, row, classes: Sequence[str]) -> tuple[str, ...]:
        if is_list(row) and all(isinstance(name, str) for name in row):
            return tuple(row)
        values = np.asarray(row)
        if values.shape != (len(classes),) or not np.isin(values, (0, 1)).all():
            raise InputError(
                f"The labels of a text must be a list of names, or 0 or 1 for each of {', '.join(classes)}. "
                f"Received {row!r}."
            )
        return tuple(name for name, value in zip(classes, values, strict=True) if value)


def _number(label) -> float:
    number = as_number(label)
    if number is None:
        raise InputError(f"The labels of this task must be finite numbers. Received {label!r}.")
    return number


def text_features(
    examples: Sequence[TextExample],
    tokenizer: Tokenizer,
    max_seq_length: int,
    labels: Sequence[str] = (),
) -> list[Features]:
    """Arrays of texts and pairs of texts.

    Args:
      examples: N examples.
      tokenizer: encodes the texts.
      max_seq_length: longer texts are truncated at the end; in a pair the longer text is (if both
        are equally long, the second).
      labels: the classes in the model's order; () for numbers.

    Returns:
      For each example input_ids and token_type_ids, int32 [T], and, if the example has one, label: its index in
      `labels`, int32 [], or a number, float32 []; of several classes label_set, float32 [C], 1 for each of its
      labels and 0 for the others.

    Raises:
      InputError: max_seq_length is too small, or a label is not one of `labels`.
    """
    check_length(max_seq_length, 5)
    texts = [example.text_a for example in examples]
    pairs = [example.text_b or "" for example in examples]
    has_pairs = any(example.text_b is not None for example in examples)
    first = tokenizer.encode_batch(texts, max_seq_length)
    second = tokenizer.encode_batch(pairs, max_seq_length) if has_pairs else [None] * len(texts)
    features = []
    for example, a, b in zip(examples, first, second, strict=True):
        arrays = joined(a, b if example.text_b is not None else None, tokenizer, max_seq_length)
        if isinstance(example.label, tuple):
            arrays[LABEL_SET] = np.zeros(len(labels), np.float32)
            arrays[LABEL_SET][[class_number(label, labels) for label in example.label]] = 1
        elif isinstance(example.label, str):
            arrays["label"] = class_number(example.label, labels)
        elif example.label is not None:
            arrays["label"] = np.array(example.label, np.float32)
        features.append(arrays)
    return features
