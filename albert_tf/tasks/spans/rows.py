"""Questions whose answer is a span of a context: rows as examples, and where answers are in their contexts."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from albert_tf.tasks.kind import Split
from albert_tf.tasks.problems import Problems, shown
from albert_tf.tasks.tables import TableRow
from albert_tf.tasks.texts.rows import NOT_A_TEXT
from albert_tf.tasks.values import as_list, as_number, as_text


@dataclass(frozen=True)
class QuestionExample:
    """A question whose answer is a span of its context, as in SQuAD.

    Attributes:
      id: the file's.
      question: the question.
      context: the text that contains the answer.
      answers: all accepted answers; empty if there is no answer, and in a test set.
      answer_starts: the character (code point) of `context` at which each answer begins.
      is_impossible: whether the file marks the question as unanswerable (SQuAD 2.0).
    """

    id: str
    question: str
    context: str
    answers: tuple[str, ...] = ()
    answer_starts: tuple[int, ...] = ()
    is_impossible: bool = False


def question_examples(rows: Iterable[TableRow], first: TableRow, split: Split) -> Iterator[QuestionExample]:
    """The examples of rows; those whose texts or answers cannot be used are problems."""
    columns, names, source = split.columns, first.values, first.source
    context = columns.need("context", names, source)
    question = columns.need("question", names, source)
    answer = (columns.find if split.is_test else columns.need)("answer", names, source)
    start = columns.find("answer_start", names, source)
    for identity, row in split.with_ids(rows, columns.find("id", names, source), may_repeat=False):
        try:
            answers, starts = _answers(row.value(answer), row.value(start))
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            split.problems.add("answer that is neither a text nor a list of texts", row.source, str(error))
            continue
        texts = [as_text(row.value(name)) for name in (question, context)]
        if None in texts:
            given = " and ".join(shown(row.value(name)) for name in (question, context))
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
        if start is None and "answer_start" not in str(row.value(answer)):
            example = _with_starts(example)
        checked = checked_question(example, row.source, split)
        if checked is not None:
            yield checked


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


def checked_question(example: QuestionExample, source: str, split: Split) -> QuestionExample | None:
    """A question with corrected answer offsets, or None if it is left out and reported as a problem."""
    problems, is_training = split.problems, split.is_training
    where = f"{source}, question {example.id}"
    outcome = "left out" if is_training else "kept for prediction"
    for name, text in (("question", example.question), ("context", example.context)):
        if not text.strip():
            problems.add(f"empty {name}", where, f"received {text!r}", outcome=outcome)
            if is_training:
                return None
    if has_text(example.answers) and not example.is_impossible:
        return with_located_answers(example, source, problems, is_training=is_training)
    if is_training and not (split.task.answerable and example.is_impossible):
        if not split.task.answerable:
            outcome += "; --task=squad2.0 trains on them"
        problems.add("question without an answer", where, shown(example.question), outcome=outcome)
        return None
    if has_text(example.answers):
        outcome = "learned as unanswerable" if is_training else "scored with its answers"
        problems.add("`is_impossible` beside an answer", where, shown(example.answers[0]), outcome=outcome)
    return example


def has_text(answers: Sequence[str]) -> bool:
    """Whether there is an answer that is not blank; annotation tools write "" for none."""
    return any(answer.strip() for answer in answers)


def with_located_answers(
    example: QuestionExample, source: str, problems: Problems, *, is_training: bool
) -> QuestionExample | None:
    """The example with corrected answer offsets, or None if training cannot use it.

    An answer that is not at its offset but occurs exactly once in the context is moved there. Evaluation keeps
    every question, since each counts in the score; training keeps only located answers. `problems` collects the
    answers that are not at their offset.
    """
    starts = list(example.answer_starts)
    located = []
    reported: set[tuple[str, int]] = set()
    for i, (answer, start) in enumerate(zip(example.answers, example.answer_starts, strict=True)):
        if answer_span(example.context, answer, start):
            located.append(i)
            continue
        occurrences = answer_places(example.context, answer)
        if len(occurrences) == 1:
            starts[i] = occurrences[0]
            located.append(i)
        if (answer, start) not in reported:
            where = f"{source}, question {example.id}"
            _report_misplaced(example.context, where, problems, answer, start, occurrences, is_training)
        reported.add((answer, start))
    if not is_training:
        return replace(example, answer_starts=tuple(starts))
    if not located:
        return None
    return replace(
        example,
        answers=tuple(example.answers[i] for i in located),
        answer_starts=tuple(starts[i] for i in located),
    )


def answer_span(context: str, answer: str, start: int) -> tuple[int, int] | None:
    """The begin and end, in characters, of an answer at `start`; None if the answer is not there.

    White space around the answer and the amount of it between words do not matter.

    >>> answer_span("It was  the\\nlast one.", " the last", 7)
    (8, 16)
    """
    words = answer.split()
    if not words or not 0 <= start <= len(context):
        return None
    if context.startswith(answer, start):  # the usual case, without compiling a pattern
        begin = start + len(answer) - len(answer.lstrip())
        return begin, begin + len(answer.strip())
    # A start inside the white space before an answer counts as the answer's start.
    match = re.compile(r"\s*(" + r"\s+".join(map(re.escape, words)) + ")").match(context, start)
    return match.span(1) if match else None


def answer_places(context: str, answer: str) -> list[int]:
    """The characters of the context at which an answer begins; white space between words may differ."""
    words = answer.split()
    if not words:
        return []
    return [match.start() for match in re.finditer(r"\s+".join(map(re.escape, words)), context)]


def _report_misplaced(
    context: str,
    where: str,
    problems: Problems,
    answer: str,
    start: int,
    occurrences: list[int],
    is_training: bool,
) -> None:
    found = context[max(start, 0) :][: len(answer)]
    detail = f"{shown(answer)} at {start}, where the context has {shown(found)}"
    if len(occurrences) == 1:
        outcome = "moved to its only occurrence"
        detail += f"; it occurs at {occurrences[0]}"
    else:
        outcome = "left out" if is_training else "kept for evaluation"
        detail += f"; it occurs {len(occurrences) or 'no'} times"
    problems.add("answer not at its offset", where, detail, outcome=outcome)
