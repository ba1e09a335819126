"""The rows of any table as examples of a task, and the classes of examples."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from albert_tf.tasks.columns import ANSWERS
from albert_tf.tasks.kind import Kind, Split
from albert_tf.tasks.tables import TableRow
from albert_tf.tasks.values import as_number
from data_prep.errors import InputError


def examples_of_rows(rows: Iterable[TableRow], split: Split, table: str | None = None) -> list[Any]:
    """The examples of the rows of any table.

    Args:
      rows: from a file or a dataset; a column that some rows lack is empty there.
      split: the task, the name of the split, and the columns and labels.
      table: the file or dataset, for messages about its columns. Default: the first row.

    Raises:
      InputError: a needed column is missing, or there are no rows.
    """
    rows = list(rows)
    if not rows:
        raise InputError(f"A {split.name} file must have rows. Received none that is readable.")
    # Objects of JSON may leave out what is optional.
    first = TableRow(dict.fromkeys(name for row in rows for name in row.values), table or rows[0].source)
    if split.is_test:
        split = replace(split, columns=split.columns.present_in(first.values, ANSWERS))
    return list(split.task.kind.examples(rows, first, split))


def labels_of(kind: Kind, examples: Iterable[Any]) -> tuple[str, ...]:
    """The classes of training examples, sorted as numbers if all are numbers, else by name."""
    found: set[str] = set()
    for label in map(kind.label, examples):
        found.update([label] if isinstance(label, str) else label or ())
    numbers = {label: as_number(label) for label in found}
    if all(number is not None for number in numbers.values()):
        return tuple(sorted(found, key=lambda label: (numbers[label], label)))
    return tuple(sorted(found))
