"""Rows with one or two texts and a label, as examples."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from data_prep.tasks.examples import Split, TextExample, shown
from data_prep.tasks.tables import TableRow


class TextColumns(NamedTuple):
    """The names of the columns; `text_b` is None for single texts."""

    text_a: str
    text_b: str | None
    label: str = "label"
    id: str = "index"


def text_examples(rows: Iterable[TableRow], columns: TextColumns, split: Split) -> list[TextExample]:
    """The examples of rows. Those without a text or label, or with a label outside the set, are problems.

    Args:
      rows: from any file.
      columns: the names of their columns.
      split: whose task's kind "regression" converts labels to numbers.
    """
    examples = []
    for number, row in enumerate(rows):
        text_a, text_b = (_text(row, name, split) for name in (columns.text_a, columns.text_b))
        if text_a is None or (text_b is None and columns.text_b):
            continue
        label: str | float | None = None
        value = row.values.get(columns.label)
        if not _is_missing(value):
            label = _label(value, row.source, split)
            if label is None and not split.is_test:
                continue
        elif not split.is_test:
            split.problems.add("no label", row.source, f"received {shown(value)} in {columns.label!r}")
            continue
        identity = row.values.get(columns.id)
        examples.append(TextExample(str(number if identity is None else identity), text_a, text_b, label))
    return examples


def _text(row: TableRow, column: str | None, split: Split) -> str | None:
    if column is None:
        return None
    value = row.values.get(column)
    if value is not None and not isinstance(value, str):
        value = str(value)
    if value and not value.isspace():
        return value
    outcome = "kept for prediction" if split.is_test else "left out"
    split.problems.add("empty text", row.source, f"received {value!r} in {column!r}", outcome=outcome)
    return (value or "") if split.is_test else None


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _label(value: Any, source: str, split: Split) -> str | float | None:
    problems, labels = split.problems, split.labels
    outcome = "label ignored" if split.is_test else "left out"
    if split.task.kind == "regression":
        number = as_number(value)
        if number is None:
            problems.add("label that is not a number", source, f"received {shown(value)}", outcome=outcome)
        return number
    label = as_label(value)
    if labels and label not in labels:
        problems.add(
            "label outside the set",
            source,
            f"received {shown(label)}, allowed {', '.join(labels[:5])}{', ...' if len(labels) > 5 else ''}",
            outcome=outcome,
        )
        return None
    return label


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


def as_number(value: Any) -> float | None:
    """The value as a finite number, or None."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
