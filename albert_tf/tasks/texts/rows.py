"""Rows with one or two texts and a label, as examples."""

import ast
import math
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from albert_tf.tasks.examples import Split, TextExample, shown
from albert_tf.tasks.tables import TableRow, parse_json
from data_prep.errors import InputError

NOT_A_TEXT = "list or object in place of a text"  # a problem
_MOST_BETWEEN_ORDINALS = 100
_WHOLE = re.compile(r"(-?\d+)\.0+")
Label = str | float | tuple[str, ...]


class TextColumns(NamedTuple):
    """The names of the columns; `text_b` is None for single texts."""

    text_a: str
    text_b: str | None
    label: str = "label"
    id: str = "index"


def text_examples(rows: Iterable[TableRow], columns: TextColumns, split: Split) -> list[TextExample]:
    """The examples of rows. Those without a text or label, with a label outside the set, or with the id of another
    are problems.

    Args:
      rows: from any file.
      columns: the names of their columns.
      split: its task decides what a label is: a class, several classes or a number.
    """
    examples = []
    for identity, row in with_ids(rows, columns.id, split):
        text_a, text_b = (_text(row, name, split) for name in (columns.text_a, columns.text_b))
        if text_a is None or (text_b is None and columns.text_b):
            continue
        label: Label | None = None
        value = row.values.get(columns.label)
        if not _is_missing(value, split):
            label = _label(value, row.source, split)
            if label is None and not split.is_test:
                continue
        elif not split.is_test:
            split.problems.add("no label", row.source, f"received {shown(value)} in {columns.label!r}")
            continue
        examples.append(TextExample(identity, text_a, text_b, label))
    return examples if split.labels or not split.task.has_classes else _with_one_spelling(examples)


def _with_one_spelling(examples: list[TextExample]) -> list[TextExample]:
    """The examples with the shortest spelling of each class, where a table has some rows with 1.0 for 1."""
    found = {name for example in examples for name in _names(example.label)}
    spellings: dict[str, str] = {}
    for name in sorted(found, key=lambda name: (len(name), name)):
        spellings.setdefault(_class_of(name), name)
    if len(spellings) == len(found):
        return examples

    def respelled(label: Any) -> Any:
        if label is None:
            return None
        names = tuple(dict.fromkeys(spellings[_class_of(name)] for name in _names(label)))
        return names[0] if isinstance(label, str) else names

    return [replace(example, label=respelled(example.label)) for example in examples]


def _names(label: Any) -> tuple[str, ...]:
    return () if label is None else (label,) if isinstance(label, str) else label


def with_ids(rows: Iterable[TableRow], column: str | None, split: Split) -> Iterator[tuple[str, TableRow]]:
    """Each row and its id, else its number from 0; a row whose id an earlier one has is a problem.

    Predictions are told apart by ids, and in training the windows of questions; other rows may then share one.
    """
    may_repeat = split.is_training and split.task.kind != "question_answering"
    seen: set[str] = set()
    for number, row in enumerate(rows):
        given = None if column is None else row.values.get(column)
        identity = str(number if given in (None, "") else given)
        if identity in seen and not may_repeat:
            split.problems.add("id that another row has", row.source, f"received {shown(identity)}")
            continue
        seen.add(identity)
        yield identity, row


def _text(row: TableRow, column: str | None, split: Split) -> str | None:
    if column is None:
        return None
    value = row.values.get(column)
    text = as_text(value)
    if text and not text.isspace():
        return text
    kind, detail = NOT_A_TEXT if text is None else "empty text", f"received {shown(value)} in {column!r}"
    split.problems.add(kind, row.source, detail, outcome=split.text_outcome)
    return (text or "") if split.is_test else None


def _is_missing(value: Any, split: Split) -> bool:
    """Whether there is no label, also written as NaN; an empty text is an empty set of labels."""
    is_empty = isinstance(value, str) and not value.strip()
    is_nan = str(value) in ("nan", "NaN") and isinstance(value, str | float)
    return value is None or is_nan or (is_empty and split.task.kind != "multi_label_classification")


def _label(value: Any, source: str, split: Split) -> Label | None:
    if split.task.kind == "multi_label_classification":
        names = as_labels(value, split.columns.label_separator)
        names = tuple(dict.fromkeys(known_label(name, split.labels) for name in names))
        if any(_is_outside(name, source, split) for name in names):
            return None
        return names
    if split.task.kind == "regression":
        number = as_number(value)
        if number is None:
            has_comma = isinstance(value, str) and as_number(value.replace(",", ".")) is not None
            detail = f"received {shown(value)}{'; write a point for the comma' if has_comma else ''}"
            split.problems.add("label that is not a number", source, detail, outcome=split.label_outcome)
        return number
    if isinstance(value, list | dict):
        outcome = f"{split.label_outcome}; --task=multi-label-classification trains on lists"
        split.problems.add(
            "list or object in place of a class", source, f"received {shown(value)}", outcome=outcome
        )
        return None
    label = known_label(as_label(value), split.labels)
    return None if _is_outside(label, source, split) else label


def _is_outside(label: str, source: str, split: Split) -> bool:
    """Whether a label is not allowed, which is a problem of its row."""
    if not split.labels or label in split.labels:
        return False
    split.add_label_outside(label, source, split.labels)
    return True


def known_label(label: str, labels: Sequence[str]) -> str:
    """The label as `labels` write it: a table has 1.0 for 1 where other labels miss, and True for true.

    >>> known_label("1.0", ("0", "1")), known_label("1", ("0.0", "1.0")), known_label("TRUE", ("false", "true"))
    ('1', '1.0', 'true')
    """
    if not labels or label in labels:
        return label
    same = [known for known in labels if _class_of(known) == _class_of(label)]
    return same[0] if len(same) == 1 else label


def _class_of(label: str) -> str:
    """What all spellings of a class have in common: 1 of 1.0, and true of True."""
    whole, is_truth = _WHOLE.fullmatch(label), label.lower() in ("true", "false")
    return whole[1] if whole else label.lower() if is_truth else label


def as_labels(value: Any, separator: str) -> tuple[str, ...]:
    """The names of several classes, each once, from a list, a JSON list or a text with separators.

    >>> [as_labels(value, ",") for value in ("sports, news", '["sports", 1]', ["a", "a"], "")]
    [('sports', 'news'), ('sports', '1'), ('a',), ()]
    """
    value = as_list(value)
    values = value if isinstance(value, list) else str(value).split(separator)
    names = [as_label(name) for name in values]
    return tuple(dict.fromkeys(name for name in names if name))


def as_text(value: Any) -> str | None:
    """A value as text, "" if it is missing; None for a list or an object.

    >>> as_text("Fine."), as_text(None), as_text(7), as_text(["Fine."])
    ('Fine.', '', '7', None)
    """
    if isinstance(value, list | dict):
        return None
    return "" if value is None else str(value)


def as_list(value: Any) -> Any:
    """The value, parsed if it is a JSON list or object, or a list as Python writes it, in a field of a table."""
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            return parse_json(value)
        except ValueError:
            return _python_list(value)
    return value


def _python_list(text: str) -> Any:
    """The list that a text is the `repr` of, as pandas writes it to CSV; any other text unchanged."""
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text
    return value if isinstance(value, list) and repr(value) == text.strip() else text


def as_label(value: Any) -> str:
    """A class's name; whole numbers are written without a decimal point.

    >>> [as_label(value) for value in (" yes ", 1, 1.0, True)]
    ['yes', '1', '1', 'true']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def option_number(value: Any, options: Sequence[str]) -> int | None:
    """The option that a label names by its text, else by its number from 0 or its letter; None if it names none.

    >>> [option_number(value, ["red", "blue"]) for value in ("blue", 0, "b", "green")]
    [1, 0, 1, None]
    """
    label = as_label(value)
    texts = [option.strip() for option in options]
    if texts.count(label) == 1:
        return texts.index(label)
    if label.isdecimal() and len(label) < 10:  # Python refuses to convert thousands of digits
        return int(label) if int(label) < len(options) else None
    letter = string.ascii_uppercase.find(label.upper()) if len(label) == 1 else -1
    return letter if 0 <= letter < len(options) else None


def as_ordinals(labels: Iterable[str], order: Sequence[str] = ()) -> list[int]:
    """The names of ordered classes as numbers, whose differences are the distances of the classes.

    >>> as_ordinals(["5", "1"]), as_ordinals(["good", "bad"], order=["bad", "fair", "good"])
    ([5, 1], [2, 0])

    Args:
      labels: whole numbers, or names in `order`.
      order: all classes, the lowest first; names are then numbered from 0.

    Raises:
      InputError: they are neither names in `order` nor whole numbers that are close to each other.
    """
    labels = list(labels)
    if any(as_number(label) is None for label in order) and set(labels) <= set(order):
        return [order.index(label) for label in labels]
    numbers = [as_number(label) for label in labels]
    wrong = [label for label, number in zip(labels, numbers, strict=True) if number is None or number % 1]
    known = [int(number) for number in numbers if number is not None]
    if wrong or max(known) - min(known) > _MOST_BETWEEN_ORDINALS:
        raise InputError(
            "The classes of ordinal-classification must be whole numbers, such as 1 to 5 stars, at most "
            f"{_MOST_BETWEEN_ORDINALS} apart, or names in the order of --label_order. "
            f"Received {', '.join(map(shown, wrong or (min(known), max(known))))}."
        )
    return known


def as_number(value: Any) -> float | None:
    """The value as a finite number, or None."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
