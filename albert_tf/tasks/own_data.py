"""The user's own rows as examples, for every kind of task."""

import string
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from albert_tf.tasks.benchmarks.glue import has_pairs, with_glue_names
from albert_tf.tasks.benchmarks.squad import checked_question, has_text
from albert_tf.tasks.columns import ANSWERS, Columns
from albert_tf.tasks.examples import (
    ChoiceExample,
    Example,
    QuestionExample,
    Split,
    TextExample,
    WordsExample,
    shown,
)
from albert_tf.tasks.tables import TableRow
from albert_tf.tasks.texts.rows import (
    NOT_A_TEXT,
    TextColumns,
    as_label,
    as_list,
    as_number,
    as_text,
    option_number,
    text_examples,
    with_ids,
)
from data_prep.errors import InputError


def examples_of_rows(rows: Iterable[TableRow], split: Split, table: str | None = None) -> list[Example]:
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
    if split.task.download == "glue":
        split = replace(split, columns=with_glue_names(split.columns, split.task, first.values))
    if split.task.kind == "regression" or (
        split.task.has_classes and split.task.kind != "token_classification"
    ):
        return list(text_examples(rows, _text_columns(first, split), split))
    if split.task.kind == "multiple_choice":
        return list(_choices(rows, first, split))
    if split.task.kind == "question_answering":
        return list(_questions(rows, first, split))
    return list(_words(rows, first, split))


def labels_of(examples: Iterable[Example]) -> tuple[str, ...]:
    """The classes of training examples, sorted as numbers if all are numbers, else by name.

    >>> labels_of([TextExample("0", "a", label="10"), TextExample("1", "b", label="9")])
    ('9', '10')
    """
    found: set[str] = set()
    for example in examples:
        if isinstance(example, TextExample) and isinstance(example.label, str | tuple):
            found.update([example.label] if isinstance(example.label, str) else example.label)
        elif isinstance(example, WordsExample):
            found.update(example.labels or ())
    numbers = {label: as_number(label) for label in found}
    if all(number is not None for number in numbers.values()):
        return tuple(sorted(found, key=lambda label: (numbers[label], label)))
    return tuple(sorted(found))


def _text_columns(first: TableRow, split: Split) -> TextColumns:
    columns, names, source = split.columns, first.values, first.source
    find_label = columns.find if split.is_test else columns.need
    needs_pairs = split.task.download == "glue" and has_pairs(split.task)
    return TextColumns(
        columns.need("text_a", names, source),
        (columns.need if needs_pairs else columns.find)("text_b", names, source),
        find_label("label", names, source) or "label",
        columns.find("id", names, source) or "id",
    )


def _choices(rows: Iterable[TableRow], first: TableRow, split: Split) -> Iterator[ChoiceExample]:
    columns, problems, is_test = split.columns, split.problems, split.is_test
    names, source = first.values, first.source
    passage = columns.find("passage", names, source)
    question = columns.need("question", names, source)
    label = (columns.find if is_test else columns.need)("label", names, source)
    option_columns = _option_columns(columns, first)
    expected: int | None = None
    numbers: set[int] = set()
    for identity, row in with_ids(rows, columns.find("id", names, source), split):
        options = _options(row, option_columns)
        if options is None or (expected not in (None, len(options))):
            rule = f"{expected} of them" if expected else "a list of at least two texts"
            problems.add("options missing", row.source, f"received {shown(options)}, not {rule}")
            continue
        if len(options) > len(string.ascii_uppercase):  # predictions are letters
            problems.add("more than 26 options", row.source, f"received {len(options)}")
            continue
        given = [row.values.get(name) for name in (passage, question) if name]
        texts = [text for text in map(as_text, given) if text is not None]
        if len(texts) < len(given):
            problems.add(NOT_A_TEXT, row.source, f"received {shown(given)}")
            continue
        if not texts[-1].strip() or not all(option.strip() for option in options):
            problems.add("empty text", row.source, f"received {shown(texts[-1])} and {shown(options)}")
            continue
        expected = len(options)
        value = _value(row, label)
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
    values: Any = [row.values.get(name) for name in names]
    if len(names) == 1:
        values = as_list(values[0])
    if not isinstance(values, list) or len(values) < 2:
        return None
    texts = [as_text(value) for value in values if value is not None]
    options = [text for text in texts if text is not None]
    return options if len(options) == len(values) else None


def _questions(rows: Iterable[TableRow], first: TableRow, split: Split) -> Iterator[QuestionExample]:
    columns, names, source = split.columns, first.values, first.source
    context = columns.need("context", names, source)
    question = columns.need("question", names, source)
    answer = (columns.find if split.is_test else columns.need)("answer", names, source)
    start = columns.find("answer_start", names, source)
    for identity, row in with_ids(rows, columns.find("id", names, source), split):
        try:
            answers, starts = _answers(_value(row, answer), _value(row, start))
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            split.problems.add("answer that is neither a text nor a list of texts", row.source, str(error))
            continue
        texts = [as_text(row.values.get(name)) for name in (question, context)]
        if None in texts:
            given = " and ".join(shown(row.values.get(name)) for name in (question, context))
            split.problems.add(NOT_A_TEXT, row.source, f"received {given}")
            continue
        example = QuestionExample(
            id=identity,
            question=texts[0] or "",
            context=texts[1] or "",
            answers=answers,
            answer_starts=starts,
            is_impossible=answer is not None and not has_text(answers) and split.task.answerable,
        )
        if start is None and "answer_start" not in str(_value(row, answer)):
            example = _with_starts(example)
        checked = checked_question(example, row.source, split)
        if checked is not None:
            yield checked


def _value(row: TableRow, column: str | None) -> Any:
    return None if column is None else row.values.get(column)


def _answers(value: Any, start: Any) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Answers and their offsets, from a text, a list of texts, or the nested forms of SQuAD and its datasets."""
    listed, start = as_list(value), as_list(start)
    if _are_answers(listed) or not isinstance(value, str):
        value = listed
    if value in (None, "", []):
        return (), ()
    if isinstance(value, dict):
        value, start = value["text"], value.get("answer_start", start)
    if isinstance(value, list) and all(isinstance(answer, dict) for answer in value):
        start = [answer.get("answer_start", -1) for answer in value]
        value = [answer["text"] for answer in value]
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"received {shown(value)}")
    starts = start if isinstance(start, list) else [-1 if start in (None, "") else start] * len(texts)
    if len(starts) != len(texts):
        raise ValueError(f"received {len(texts)} answers that begin at {len(starts)} places")
    return tuple(texts), tuple(map(_position, starts))


def _are_answers(listed: Any) -> bool:
    """Whether a field's text lists answers; otherwise it is itself one, such as "[12]"."""
    members = listed if isinstance(listed, list) else [listed]
    return all(isinstance(one, str) or (isinstance(one, dict) and "text" in one) for one in members)


def _position(value: Any) -> int:
    """A whole number; pandas writes 15.0 to CSV for 15 in a column where other numbers miss."""
    number = as_number(value)
    if number is None or number % 1:
        raise ValueError(f"received {shown(value)} as the position of an answer")
    return int(number)


def _with_starts(example: QuestionExample) -> QuestionExample:
    """Locates answers without offsets that occur exactly once; the others get -1."""
    starts = tuple(
        example.context.find(answer) if example.context.count(answer) == 1 else -1
        for answer in example.answers
    )
    return replace(example, answer_starts=starts)


def _words(rows: Iterable[TableRow], first: TableRow, split: Split) -> Iterator[WordsExample]:
    columns, problems, labels = split.columns, split.problems, split.labels
    names, source = first.values, first.source
    words_column = columns.need("words", names, source)
    label_column = (columns.find if split.is_test else columns.need)("word_labels", names, source)
    for number, row in enumerate(rows):
        words = as_list(row.values.get(words_column))
        if not isinstance(words, list) or not words or not all(isinstance(w, str) and w for w in words):
            problems.add("words that are not a list of texts", row.source, f"received {shown(words)}")
            continue
        given = as_list(_value(row, label_column))
        tags, problem = None, None
        if isinstance(given, list) and len(given) == len(words):
            tags = tuple(as_label(tag) for tag in given)
            if outside := [tag for tag in tags if labels and tag not in labels]:
                tags, problem = None, ("label outside the set", outside[0])
        elif given is not None or not split.is_test:
            problem = "labels that are not one for each word", given
        if problem:
            kind, value = problem
            problems.add(kind, row.source, f"received {shown(value)}", outcome=split.label_outcome)
        if tags is not None or split.is_test:
            yield WordsExample(str(number), tuple(words), tags)
