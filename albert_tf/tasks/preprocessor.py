"""From strings to the arrays that task models take; .keras files include the preprocessor and its vocabulary."""

import base64
import copy
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.tasks.features import Features
from albert_tf.tasks.splits import EncodedSplit, with_common_names
from albert_tf.tasks.values import as_label, as_number, known_label
from data_prep.errors import InputError
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary


class VocabularyContent(str):
    """A vocabulary's file as base64. Printed configurations, such as in Keras' messages, show its size alone."""

    def __repr__(self) -> str:
        return f"<{len(self):,} characters>"


class Preprocessor:
    """A tokenizer, and how a task combines texts into sequences.

    Args:
      vocabulary: the encoder's.
      max_seq_length: longest sequence, including [CLS] and [SEP].

    Attributes:
      columns: the names of the columns that `fit` was given, by what they hold, as in `Columns`.
    """

    parts: tuple[str, ...] = ("text_a", "text_b")  # what the columns hold
    label_parts: tuple[str, ...] = ("label",)
    more_lengths: tuple[str, ...] = ()  # arguments of the constructor after `max_seq_length`

    def __init__(self, vocabulary: Vocabulary, max_seq_length: int = 128):
        self.vocabulary, self.max_seq_length = vocabulary, max_seq_length
        self.columns: dict[str, str] = {}
        self.tokenizer = vocabulary.tokenizer()

    def features(self, x, y=None, classes: Sequence[str] = ()) -> list[Features]:
        """The arrays of each example, with its label if it has one.

        Args:
          x: the examples' strings.
          y: their labels; None if they are unknown.
          classes: names of the labels.

        Raises:
          InputError: strings or labels do not have the task's form.
        """
        return self.arrays(self.examples(x, y, classes), classes)

    def examples(self, x, y=None, classes: Sequence[str] = ()) -> list[Any]:
        """The examples, numbered; arguments and errors as for `features`."""
        raise NotImplementedError

    def arrays(self, examples: Sequence[Any], classes: Sequence[str] = ()) -> list[Features]:
        """The arrays of examples."""
        raise NotImplementedError

    def split(
        self, name: str, examples: Sequence[Any], classes: Sequence[str] = (), cache: Path | None = None
    ) -> EncodedSplit:
        """Turns examples into a split; without labels, unless all of them are known.

        Args:
          name: the split's.
          examples: as read.
          classes: names of the labels.
          cache: begins the name of a file that keeps arrays that take long to compute; None keeps none.

        Raises:
          InputError: an example cannot be predicted, or a label is none of `classes`.
        """
        return EncodedSplit(name, examples, with_common_names(self.arrays(examples, classes)))

    def count_cut(self, split: EncodedSplit, classes: Sequence[str] = ()) -> int:
        """The number of examples that have more tokens than their sequences."""
        T = self.max_seq_length
        full = [
            example
            for example, features in zip(split.examples, split.features, strict=False)
            if features["input_ids"].shape[-1] == T
        ]
        longer = copy.copy(self)
        longer.max_seq_length = T + 1
        return sum(features["input_ids"].shape[-1] > T for features in longer.arrays(full, classes))

    def note_columns(self, x, y) -> None:
        """Keeps the names of columns that have some, as those of pandas do, for tables to predict later."""
        for parts, columns in ((self.parts, x), (self.label_parts, y)):
            together = columns if isinstance(columns, tuple) else (columns,)
            names = {
                what: getattr(column, "name", None) for what, column in zip(parts, together, strict=False)
            }
            self.columns |= {what: name for what, name in names.items() if name and isinstance(name, str)}

    def shorten(self, longest: int) -> None:
        """Lowers the lengths to what a model with `longest` positions can take."""
        self.max_seq_length = min(self.max_seq_length, longest)

    def get_config(self) -> dict[str, Any]:
        return {
            "kind": self.vocabulary.kind,
            "content": VocabularyContent(base64.b64encode(self.vocabulary.content).decode("ascii")),
            **dataclasses.asdict(self.vocabulary.normalization),
            **self.lengths,
            **({"columns": self.columns} if self.columns else {}),
        }

    @property
    def lengths(self) -> dict[str, int]:
        """The arguments of the constructor after the vocabulary, in tokens."""
        return {name: getattr(self, name) for name in ("max_seq_length", *self.more_lengths)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Preprocessor":
        content = base64.b64decode(config["content"])
        vocabulary = Vocabulary(
            config["kind"], content, Normalization.from_dict(config, "The preprocessor's configuration")
        )
        used = {"kind", "content", "columns", *dataclasses.asdict(vocabulary.normalization)}
        found = cls(vocabulary, **{name: value for name, value in config.items() if name not in used})
        found.columns = dict(config.get("columns", {}))
        return found


def columns_of(x, *numbers: int) -> tuple:
    """The columns of `x`: the members of a tuple of columns, otherwise `x` alone."""
    parts = x if isinstance(x, tuple) and not all(isinstance(part, str | bytes) for part in x) else (x,)
    if len(parts) not in numbers:
        expected = " or ".join(str(number) for number in numbers)
        raise InputError(
            f"This task takes {expected} columns of strings; several must be a tuple. Received {len(parts)}."
        )
    parts = tuple(map(as_rows, parts))
    if wrong := [part for part in parts if not hasattr(part, "__len__")]:
        raise InputError(f"A column must be a list. Received {wrong[0]!r}; for no text give an empty string.")
    check_lengths(*parts)
    return parts


def check_lengths(*columns) -> None:
    """Raises InputError if columns have different lengths."""
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise InputError(
            f"All columns must have the same length. Received {', '.join(map(str, sorted(lengths)))}."
        )


def is_list(values) -> bool:
    """Whether the values are several, and no string, which would be one for each of its characters."""
    return isinstance(values, Iterable) and not isinstance(values, str | bytes)


def as_rows(values):
    """A column as a sequence of rows: an array for those of pandas, polars and TensorFlow."""
    rows = np.asarray(values) if hasattr(values, "__array__") else values
    return rows.item() if isinstance(rows, np.ndarray) and not rows.ndim else rows


def as_texts(values) -> list[str]:
    """Strings, from a column of strings or of TensorFlow's bytes.

    Raises:
      InputError: it is no list, or holds something else.
    """
    values = as_rows(values)
    if not is_list(values):
        raise InputError(f"Texts, words and options must be a list of strings. Received {values!r}.")
    texts = [
        value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for value in (values.tolist() if isinstance(values, np.ndarray) else values)
    ]
    number = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
    if number is not None:
        wrong = texts[number]
        are_pairs = isinstance(wrong, tuple | list) and 2 in (len(wrong), len(texts))
        advice = (
            " Pairs are given as a tuple of two columns: (first_texts, second_texts)." if are_pairs else ""
        )
        raise InputError(f"A text must be a string. Received {wrong!r} in number {number}.{advice}")
    return texts


def one_label_each(y, number: int) -> list:
    """One label per example."""
    array = np.asarray(y)
    labels = array.reshape(-1).tolist()
    if len(labels) != number:
        advice = "; of one-hot rows give the classes, `y.argmax(axis=1)`" if array.ndim == 2 else ""
        raise InputError(
            f"There must be one label per text. Received {len(labels)} labels and {number} texts{advice}."
        )
    return labels


def label_lists(y, number: int):
    """A list of labels, or an array of 0 and 1, per example."""
    if len(y) != number:
        raise InputError(
            f"There must be a list of labels for each text. Received {len(y)} lists and {number} texts."
        )
    return as_rows(y)


def in_order_of(classes: Sequence[str], y):
    """A table with a column of 0 and 1 for each class as an array in the order of the classes; else `y` itself.

    Raises:
      InputError: its columns have other names. Numbers from 0, which pandas gives an array's, are none.
    """
    if not hasattr(y, "columns"):
        return y
    values, names = np.asarray(y), [str(name) for name in y.columns]
    if sorted(names) == sorted(classes):
        return values[:, [names.index(name) for name in classes]]
    if names != [str(number) for number in range(len(classes))]:
        raise InputError(
            f"A table of labels must have the columns {', '.join(classes)}. Received {', '.join(names)}."
        )
    return values


def each_row(convert: Callable, *columns: Iterable) -> list:
    """The results of `convert` for each row; its errors also say which row it is."""
    results = []
    for number, row in enumerate(zip(*columns, strict=True)):
        try:
            results.append(convert(*row))
        except InputError as error:
            raise InputError(f"{error} It is number {number}, counted from 0.") from None
    return results


def class_name(label, classes: Sequence[str]) -> str:
    """The class that a label names, or numbers from 0; numbers are names if the names of all classes are numbers.

    Raises:
      InputError: there is no such class, or the number is the name of another one.
    """
    label = label.item() if isinstance(label, np.generic) else label
    name = label.decode("utf-8", "replace") if isinstance(label, bytes) else label
    is_number = isinstance(name, int | float) and not isinstance(name, bool)
    named = known_label(as_label(name), classes) if isinstance(name, str | int | float) else None
    has_numbers = is_number and all(as_number(known) is not None for known in classes)
    if named in classes and (has_numbers or not is_number):
        return str(named)
    if isinstance(name, int | float) and name in range(len(classes)) and not has_numbers:
        found = classes[int(name)]
        if named in classes and found != named:
            raise InputError(
                f"Labels that are numbers count the classes from 0. Received {label!r}, which is the name of a "
                f"class and the number of another one, {found}; give the names as strings."
            )
        return found
    or_number = "" if has_numbers else f", or its number from 0 to {len(classes) - 1}"
    raise InputError(f"A label must be one of {', '.join(classes)}{or_number}. Received {label!r}.")
