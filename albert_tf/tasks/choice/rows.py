"""Rows with a passage, a question about it and several options, as examples."""

import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from albert_tf.tasks.columns import Columns
from albert_tf.tasks.kind import Split
from albert_tf.tasks.problems import shown
from albert_tf.tasks.tables import TableRow
from albert_tf.tasks.texts.rows import NOT_A_TEXT
from albert_tf.tasks.values import as_label, as_list, as_text
from data_prep.errors import InputError


@dataclass(frozen=True)
class ChoiceExample:
    """A passage, a question about it and several options, as in RACE.

    Attributes:
      id: unique in its set.
      passage: what the question is about.
      question: the question; an option replaces the "_" in it, or several in a row.
      options: the possible answers.
      label: the number of the correct option, from 0; None if unknown.
      group: "middle" or "high" in RACE, else "".
    """

    id: str
    passage: str
    question: str
    options: tuple[str, ...]
    label: int | None = None
    group: str = ""


def choice_examples(rows: Iterable[TableRow], first: TableRow, split: Split) -> Iterator[ChoiceExample]:
    """The examples of rows; those whose texts, options or label cannot be used are problems."""
    columns, problems, is_test = split.columns, split.problems, split.is_test
    names, source = first.values, first.source
    passage = columns.find("passage", names, source)
    question = columns.need("question", names, source)
    label = (columns.find if is_test else columns.need)("label", names, source)
    option_columns = _option_columns(columns, first)
    expected: int | None = None
    numbers: set[int] = set()
    for identity, row in split.with_ids(rows, columns.find("id", names, source)):
        options = _options(row, option_columns)
        if options is None or (expected not in (None, len(options))):
            rule = f"{expected} of them" if expected else "a list of at least two texts"
            problems.add("options missing", row.source, f"received {shown(options)}, not {rule}")
            continue
        if len(options) > len(string.ascii_uppercase):  # predictions are letters
            problems.add("more than 26 options", row.source, f"received {len(options)}")
            continue
        given = [row.value(name) for name in (passage, question) if name]
        texts = [text for text in map(as_text, given) if text is not None]
        if len(texts) < len(given):
            problems.add(NOT_A_TEXT, row.source, f"received {shown(given)}")
            continue
        if not texts[-1].strip() or not all(option.strip() for option in options):
            problems.add("empty text", row.source, f"received {shown(texts[-1])} and {shown(options)}")
            continue
        expected = len(options)
        value = row.value(label)
        right = None if value in (None, "") else option_number(value, options)
        if as_label(value).isdecimal() and as_label(value) not in options:
            numbers.add(int(as_label(value)[:9]))
        if right is None and (not is_test or value not in (None, "")):
            detail = f"received {shown(value)}"
            problems.add(
                "label that is not one of the options", row.source, detail, outcome=split.label_outcome
            )
            if not is_test:
                continue
        yield ChoiceExample(
            identity,
            texts[0] if passage else "",
            texts[-1],
            tuple(options),
            right,
        )
    if numbers and min(numbers) == 1 and max(numbers) == expected:
        raise InputError(
            f"Numbers of options count from 0. The {split.name} split, from {source} on, has 1 to {expected} for "
            f"{expected} options; subtract 1, or write letters from A or the texts of the options."
        )


def _option_columns(columns: Columns, first: TableRow) -> list[str]:
    """One column of lists, or several columns with one option each."""
    names = list(first.values)
    if columns.options is None or columns.options in names:
        found = columns.find("options", names, first.source)
        if found:
            return [found]
    prefix = columns.options or "option"
    several = [name for name in names if name.startswith(prefix)]
    if len(several) < 2:
        columns.need("options", names, first.source)
    return several


def _options(row: TableRow, names: list[str]) -> list[str] | None:
    values: Any = [row.value(name) for name in names]
    if len(names) == 1:
        values = as_list(values[0])
    if not isinstance(values, list) or len(values) < 2:
        return None
    texts = [as_text(value) for value in values if value is not None]
    options = [text for text in texts if text is not None]
    return options if len(options) == len(values) else None


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
