"""Questions in SQuAD's JSON, versions 1.1 and 2.0 (also XQuAD, CMRC and DRCD)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from albert_tf.tasks.kind import Split
from albert_tf.tasks.problems import shown
from albert_tf.tasks.spans.rows import QuestionExample, checked_question, has_text
from albert_tf.tasks.tables import parse_json, read_unpacked
from albert_tf.tasks.values import as_label
from data_prep.errors import InputError

NOT_A_QUESTION = "question that is not in SQuAD's form"  # a problem
_MARKS = {"true": True, "1": True, "false": False, "0": False, "": None, "null": None, "none": None}


def read_squad_file(file: Path, split: Split) -> list[QuestionExample]:
    """The questions of a file, in its order.

    Args:
      file: the file.
      split: of a task with questions. Only training needs answers; unless the task is `answerable`,
        training questions without one are problems. So are answers that are not at their offset.

    Raises:
      InputError: the file is missing or not in SQuAD's form.
    """
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


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is not a text")
    return value


def _form(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {', '.join(map(str, value)) or 'nothing in it'}"
    return f"a {type(value).__name__}"


def gold_answers(data: Any, source: str = "the gold file") -> dict[str, tuple[str, ...]]:
    """The accepted answers of every question of a SQuAD JSON file; () if a question has no answer.

    Args:
      data: the file's content, {"data": [{"paragraphs": [{"qas": [{"id", "answers": [{"text"}]}]}]}]}.
      source: the file's name, for messages.

    Raises:
      InputError: it has another form, an id twice, or no question.
    """
    try:
        questions = [
            (_as_text(question["id"]), tuple(_as_text(answer["text"]) for answer in question["answers"]))
            for article in articles_of(data, source)
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]
        answers = dict(questions)
    except (TypeError, KeyError) as error:
        missing = f" without {error}" if isinstance(error, KeyError) else ""
        raise InputError(
            'SQuAD\'s gold answers must be {"data": [{"paragraphs": [{"qas": [{"id", "answers"}]}]}]}. '
            f"Received {source}{missing or ', which is not'}."
        ) from None
    if not answers or len(answers) < len(questions):
        raise InputError(
            "A gold file must have questions, each with its own id. "
            f"Received {source} with {len(questions):,} questions and {len(answers):,} ids."
        )
    return answers
