"""Rows with one or two texts and a label, as examples."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from albert_tf.tasks.columns import TextColumns
from albert_tf.tasks.kind import Split
from albert_tf.tasks.problems import shown
from albert_tf.tasks.tables import TableRow
from albert_tf.tasks.values import as_label, as_list, as_number, as_text, class_of, known_label
from data_prep.errors import InputError

NOT_A_TEXT = "list or object in place of a text"  # a problem
_MOST_BETWEEN_ORDINALS = 100
Label = str | float | tuple[str, ...]


@dataclass(frozen=True)
class TextExample:
    """A text or a pair of texts with a class, several classes or a number.

    Attributes:
      id: the file's, else the row's number from 0.
      text_a: the first text.
      text_b: the second text; None for tasks on single texts.
      label: a class's name, a tuple of names of several classes, or a number; None if unknown, as in a test set.
    """

    id: str
    text_a: str
    text_b: str | None = None
    label: Label | None = None


def find_columns(first: TableRow, split: Split) -> TextColumns:
    """The columns of a table; texts and labels may also have the names that they have in the task's download."""
    columns, names, source, known = split.columns, first.values, first.source, split.task.columns
    if known and columns.label is None and known.label in names:
        columns = replace(columns, label=known.label)
    texts = [name for name in (known.text_a, known.text_b) if name] if known else []
    if texts and not (columns.text_a or columns.text_b) and set(texts) <= set(names):
        # QNLI's texts are question and sentence, of which the usual names would find one.
        columns = replace(columns, text_a=texts[0], text_b=texts[1] if len(texts) > 1 else None)
    find_label = columns.find if split.is_test else columns.need
    return TextColumns(
        columns.need("text_a", names, source),
        (columns.need if len(texts) > 1 else columns.find)("text_b", names, source),
        find_label("label", names, source) or "label",
        columns.find("id", names, source) or "id",
    )


def text_examples(
    rows: Iterable[TableRow],
    columns: TextColumns,
    split: Split,
) -> list[TextExample]:
    """The examples of rows. Those without a text or label, with a label outside the set, or with the id of another
    are problems.

    Args:
      rows: from any file.
      columns: the names of their columns.
      split: what the examples are for; its kind, a `TextKind`, reads the labels.
    """
    kind: Any = split.task.kind
    examples = []
    for identity, row in split.with_ids(rows, columns.id):
        text_a, text_b = (text_in(row, name, split) for name in (columns.text_a, columns.text_b))
        if text_a is None or (text_b is None and columns.text_b):
            continue
        label: Label | None = None
        value = row.value(columns.label)
        if not _is_missing(value, kind.may_lack_label):
            label = kind.read_label(value, row.source, split)
            if label is None and not split.is_test:
                continue
        elif not split.is_test:
            split.problems.add("no label", row.source, f"received {shown(value)} in {columns.label!r}")
            continue
        examples.append(TextExample(identity, text_a, text_b, label))
    return examples if split.labels or not kind.has_classes else _with_one_spelling(examples)


def read_class(value: Any, source: str, split: Split) -> str | None:
    """The name of a class."""
    if isinstance(value, list | dict):
        outcome = f"{split.label_outcome}; --task=multi-label-classification trains on lists"
        split.problems.add(
            "list or object in place of a class", source, f"received {shown(value)}", outcome=outcome
        )
        return None
    label = known_label(as_label(value), split.labels)
    return None if _is_outside(label, source, split) else label


def read_classes(value: Any, source: str, split: Split) -> tuple[str, ...] | None:
    """The names of several classes."""
    names = as_labels(value, split.columns.label_separator)
    names = tuple(dict.fromkeys(known_label(name, split.labels) for name in names))
    return None if any(_is_outside(name, source, split) for name in names) else names


def read_number(value: Any, source: str, split: Split) -> float | None:
    """A finite number."""
    number = as_number(value)
    if number is None:
        has_comma = isinstance(value, str) and as_number(value.replace(",", ".")) is not None
        detail = f"received {shown(value)}{'; write a point for the comma' if has_comma else ''}"
        split.problems.add("label that is not a number", source, detail, outcome=split.label_outcome)
    return number


def _with_one_spelling(examples: list[TextExample]) -> list[TextExample]:
    """The examples with the shortest spelling of each class, where a table has some rows with 1.0 for 1."""
    found = {name for example in examples for name in _names(example.label)}
    spellings: dict[str, str] = {}
    for name in sorted(found, key=lambda name: (len(name), name)):
        spellings.setdefault(class_of(name), name)
    if len(spellings) == len(found):
        return examples

    def respelled(label: Any) -> Any:
        if label is None:
            return None
        names = tuple(dict.fromkeys(spellings[class_of(name)] for name in _names(label)))
        return names[0] if isinstance(label, str) else names

    return [replace(example, label=respelled(example.label)) for example in examples]


def _names(label: Any) -> tuple[str, ...]:
    return () if label is None else (label,) if isinstance(label, str) else label


def text_in(row: TableRow, column: str | None, split: Split) -> str | None:
    """The text in a column; None, and outside of test sets a problem of the row, if there is none."""
    if column is None:
        return None
    value = row.value(column)
    text = as_text(value)
    if text and not text.isspace():
        return text
    kind, detail = NOT_A_TEXT if text is None else "empty text", f"received {shown(value)} in {column!r}"
    split.problems.add(kind, row.source, detail, outcome=split.text_outcome)
    return (text or "") if split.is_test else None


def _is_missing(value: Any, may_be_empty: bool) -> bool:
    """Whether there is no label, also written as NaN; an empty text may be an empty set of labels."""
    is_empty = isinstance(value, str) and not value.strip()
    is_nan = str(value) in ("nan", "NaN") and isinstance(value, str | float)
    return value is None or is_nan or (is_empty and not may_be_empty)


def _is_outside(label: str, source: str, split: Split) -> bool:
    """Whether a label is not allowed, which is a problem of its row."""
    if not split.labels or label in split.labels:
        return False
    split.add_label_outside(label, source, split.labels)
    return True


def as_labels(value: Any, separator: str) -> tuple[str, ...]:
    """The names of several classes, each once, from a list, a JSON list or a text with separators.

    >>> [as_labels(value, ",") for value in ("sports, news", '["sports", 1]', ["a", "a"], "")]
    [('sports', 'news'), ('sports', '1'), ('a',), ()]
    """
    value = as_list(value)
    values = value if isinstance(value, list) else str(value).split(separator)
    names = [as_label(name) for name in values]
    return tuple(dict.fromkeys(name for name in names if name))


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
