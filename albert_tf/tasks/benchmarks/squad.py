"""Questions in SQuAD's JSON, versions 1.1 and 2.0 (also XQuAD, CMRC and DRCD), and the location of answers."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from albert_tf.tasks.examples import Problems, QuestionExample, Split, shown
from albert_tf.tasks.tables import parse_json, read_unpacked
from albert_tf.tasks.task import Task
from albert_tf.tasks.texts.rows import as_label
from data_prep.errors import InputError

NOT_A_QUESTION = "question that is not in SQuAD's form"  # a problem
_MARKS = {"true": True, "1": True, "false": False, "0": False, "": None, "null": None, "none": None}


def read_squad(path: Path, split: Split) -> list[QuestionExample]:
    """The questions of a file, in its order.

    Args:
      path: a file, or the folder of train-v1.1.json, dev-v1.1.json and so on.
      split: of a task of kind question_answering. Only training needs answers; unless the task is `answerable`,
        training questions without one are problems. So are answers that are not at their offset.

    Raises:
      InputError: the file is missing or not in SQuAD's form.
    """
    file = path if not path.is_dir() else squad_file(split.task, path, split.name)
    text = read_unpacked(file)
    try:
        content = parse_json(text)
    except ValueError as error:
        raise InputError(f"SQuAD's files are JSON. {file} is not: {error}.") from None
    examples = []
    seen: set[str] = set()
    for example, source in _questions(content, file, split):
        if example.id in seen:
            split.problems.add("id that another question has", source, f"received {shown(example.id)}")
            continue
        seen.add(example.id)
        checked = checked_question(example, source, split)
        if checked is not None:
            examples.append(checked)
    return examples


def squad_file(task: Task, folder: Path, split: str) -> Path:
    """The file of a split in the folder of a download.

    Raises:
      InputError: there is none.
    """
    name = f"{split}-v{'2.0' if task.answerable else '1.1'}.json"
    for file in (folder / name, folder / f"{split}.json", folder / f"{name}.gz"):
        if file.is_file():
            return file
    raise InputError(
        f"{task.name} must have the file {folder / name} (or {split}.json). There is none; name the folder of the "
        "download, or the file itself."
    )


def articles_of(content: Any, file: Path | str) -> list[Any]:
    """The list `data` of a file's content.

    Raises:
      InputError: there is none, or it holds questions as the rows of a table.
    """
    articles = content.get("data") if isinstance(content, dict) else None
    if not isinstance(articles, list):
        raise InputError(
            f"SQuAD's files are an object with a list `data` of articles. {file} is {_form(content)}."
        )
    if (
        articles
        and isinstance(articles[0], dict)
        and "paragraphs" not in articles[0]
        and "context" in articles[0]
    ):
        raise InputError(
            f"The list `data` of SQuAD's files holds articles with `paragraphs`. {file} has rows with "
            f"{', '.join(map(str, articles[0]))}: write the list alone, or each row to a line of a .jsonl file."
        )
    return articles


def _questions(content: Any, file: Path, split: Split) -> Iterator[tuple[QuestionExample, str]]:
    problems = split.problems
    for a, article in enumerate(articles_of(content, file)):
        paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
        if not isinstance(paragraphs, list):
            problems.add("article without a list `paragraphs`", f"{file}, article {a}", _form(article))
            continue
        for p, paragraph in enumerate(paragraphs):
            source = f"{file.name}, article {a}, paragraph {p}"
            context = paragraph.get("context") if isinstance(paragraph, dict) else None
            if not isinstance(context, str) or not isinstance(paragraph.get("qas"), list):
                problems.add("paragraph without a text `context` and a list `qas`", source, _form(paragraph))
                continue
            for example in _paragraph_questions(paragraph, source, split):
                yield example, source


def _paragraph_questions(paragraph: dict, source: str, split: Split) -> Iterator[QuestionExample]:
    for q, question in enumerate(paragraph["qas"]):
        try:
            answers = question.get("answers") or ()
            texts = tuple(_as_text(answer["text"]) for answer in answers)
            yield QuestionExample(
                id=str(question["id"]),
                question=_as_text(question["question"]),
                context=paragraph["context"],
                answers=texts,
                answer_starts=tuple(int(answer["answer_start"]) for answer in answers),
                is_impossible=is_impossible(question.get("is_impossible"), texts, split),
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            split.problems.add(NOT_A_QUESTION, f"{source}, question {q}", reason)


def is_impossible(mark: Any, answers: Sequence[str], split: Split) -> bool:
    """Whether a question has no answer, as `mark` says, which is the field `is_impossible` of its row.

    Without a mark it has none in SQuAD 2.0 if it lists none, except in a test set, which may hide them.

    Raises:
      ValueError: the mark is neither true nor false.
    """
    word = as_label(mark).lower()
    if word not in _MARKS:
        raise ValueError(f"`is_impossible` is neither true nor false: {shown(mark)}")
    marked = _MARKS[word]
    return not (split.is_test or has_text(answers)) and split.task.answerable if marked is None else marked


def has_text(answers: Sequence[str]) -> bool:
    """Whether there is an answer that is not blank; annotation tools write "" for none."""
    return any(answer.strip() for answer in answers)


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is not a text")
    return value


def _form(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {', '.join(map(str, value)) or 'nothing in it'}"
    return f"a {type(value).__name__}"


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
