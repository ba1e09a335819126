"""Questions in SQuAD's JSON, versions 1.1 and 2.0: also XQuAD, CMRC and DRCD."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_prep.errors import InputError
from data_prep.tasks.answers import located
from data_prep.tasks.examples import QuestionExample
from data_prep.tasks.problems import Problems
from data_prep.tasks.tables import parse_json, read_text, shown
from data_prep.tasks.task import Task

_VERSIONS = {"squad1.1": "v1.1", "squad2.0": "v2.0"}


def read_squad(task: Task, path: Path, split: str, problems: Problems) -> list[QuestionExample]:
    """The questions of a file, in its order.

    Args:
      task: "squad1.1" or "squad2.0"; in 1.1 every question has an answer, and those that have none are left
        out and told.
      path: a file, or the folder of train-v1.1.json, dev-v1.1.json and so on.
      split: "train", "dev" or "test"; answers are needed in training alone.
      problems: collects questions that cannot be used, and answers that are not at their offset.

    Raises:
      InputError: there is no such file, or it is no JSON of that form.
    """
    file = path if not path.is_dir() else squad_file(task, path, split)
    try:
        content = parse_json(read_text(file))
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"SQuAD's files are JSON. {file} is not: {error}.") from None
    examples = []
    seen: set[str] = set()
    for example, source in _questions(content, file, problems):
        if example.id in seen:
            problems.add("id that another question has", source, f"received {shown(example.id)}")
            continue
        seen.add(example.id)
        checked = checked_question(example, source, task, split, problems)
        if checked is not None:
            examples.append(checked)
    return examples


def checked_question(
    example: QuestionExample, source: str, task: Task, split: str, problems: Problems
) -> QuestionExample | None:
    """A question with its answers in place, or None if it is left out and `problems` knows why."""
    is_training = split == "train"
    outcome = "left out" if is_training else "kept, a prediction is due"
    for name, text in (("question", example.question), ("context", example.context)):
        if not text.strip():
            problems.add(
                f"empty {name}", f"{source}, question {example.id}", f"received {text!r}", outcome=outcome
            )
            if is_training:
                return None
    if example.answers and not example.is_impossible:
        return located(example, source, problems, is_training=is_training)
    if is_training and not (task.answerable and example.is_impossible):
        problems.add(
            "question without an answer", f"{source}, question {example.id}", shown(example.question)
        )
        return None
    return example


def squad_file(task: Task, folder: Path, split: str) -> Path:
    """The file of a split in the folder of a download.

    Raises:
      InputError: there is none.
    """
    version = _VERSIONS.get(task.name, "v1.1")
    name = f"{split}-{version}.json"
    for file in (folder / name, folder / f"{split}.json", folder / f"{name}.gz"):
        if file.is_file():
            return file
    raise InputError(
        f"{task.name} must have the file {folder / name} (or {split}.json). There is none; name the folder of the "
        "download, or the file itself."
    )


def _questions(content: Any, file: Path, problems: Problems) -> Iterator[tuple[QuestionExample, str]]:
    articles = content.get("data") if isinstance(content, dict) else None
    if not isinstance(articles, list):
        raise InputError(
            f"SQuAD's files are an object with a list `data` of articles. {file} is {_form(content)}."
        )
    for a, article in enumerate(articles):
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
            yield from _questions_of(paragraph, source, problems)


def _questions_of(paragraph: dict, source: str, problems: Problems) -> Iterator[tuple[QuestionExample, str]]:
    for q, question in enumerate(paragraph["qas"]):
        try:
            answers = question.get("answers") or ()
            yield (
                QuestionExample(
                    id=str(question["id"]),
                    question=_as_text(question["question"]),
                    context=paragraph["context"],
                    answers=tuple(_as_text(answer["text"]) for answer in answers),
                    answer_starts=tuple(int(answer["answer_start"]) for answer in answers),
                    is_impossible=bool(question.get("is_impossible", False)),
                ),
                source,
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problems.add("question that is not in SQuAD's form", f"{source}, question {q}", _reason(error))


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is no text")
    return value


def _reason(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _form(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {', '.join(map(str, value)) or 'nothing in it'}"
    return f"a {type(value).__name__}"
