"""Lines of a stream as examples of a task, and predictions as lines of JSON."""

import json
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from albert_tf.evaluation.probability_files import Probabilities
from albert_tf.evaluation.squad_predictions import SquadPredictions
from albert_tf.finetuning.task_outputs import Predictions
from data_prep.errors import InputError
from data_prep.tasks.columns import Columns
from data_prep.tasks.examples import Example, Problems
from data_prep.tasks.own_data import examples_of_rows
from data_prep.tasks.tables import TableRow
from data_prep.tasks.task import Task

LineFormat = Literal["auto", "text", "tsv", "jsonl"]
_COLUMNS = {
    "classification": ("text_a", "text_b"),
    "regression": ("text_a", "text_b"),
    "question_answering": ("question", "context"),
    "multiple_choice": ("passage", "question"),  # and an option a column
    "token_classification": ("words",),
}
_NO_OPTIONS = 3  # a line of multiple choice has a passage, a question and two options at least


def format_of(line: str) -> Literal["tsv", "jsonl"]:
    """What lines are, by the first one: JSON objects, or texts with tabs between them where there are several."""
    try:
        return "jsonl" if isinstance(json.loads(line), dict) else "tsv"
    except ValueError:
        return "tsv"


def examples_of_lines(
    task: Task, lines: Sequence[str], first: int, line_format: Literal["text", "tsv", "jsonl"]
) -> list[Example]:
    """One example a line, with the line's number as its id.

    Args:
      task: its kind says what a line holds.
      lines: without their ends.
      first: number of the first one.
      line_format: text is one text a line, tabs and all.

    Raises:
      InputError: a line holds something else; names it.
    """
    examples: list[Example] = []
    for number, line in enumerate(lines, start=first):
        source = f"line {number}"
        values = _object(line, source) if line_format == "jsonl" else _fields(task, line, line_format, source)
        problems = Problems()
        row = TableRow({**values, "id": str(number)}, source)
        found = examples_of_rows(task, [row], Columns(), "test", (), problems)
        if not found:
            raise InputError(f"Every line must be an example of {task.kind}. {'; '.join(problems.lines())}.")
        examples += found
    return examples


def lines_of_predictions(
    examples: Sequence[Any], predictions: Predictions, null_threshold: float
) -> Iterator[dict[str, Any]]:
    """What is predicted of each example, for JSON.

    Args:
      examples: what was read.
      predictions: of these.
      null_threshold: null odds above which there is no answer.
    """
    if isinstance(predictions, SquadPredictions):
        texts = predictions.texts(null_threshold)
        for example in examples:
            best = predictions.n_best[example.id][0]
            line: dict[str, Any] = {"answer": texts[example.id], "probability": best.probability}
            if texts[example.id]:
                line["answer_start"] = best.answer_start
            if predictions.null_odds is not None:
                line["null_odds"] = predictions.null_odds[example.id]
            yield line
        return
    for example, value, guess in zip(examples, predictions.values, predictions.predictions(), strict=True):
        yield _line(example, value, guess, predictions)


def _line(example: Any, value: Any, guess: Any, predictions: Probabilities) -> dict[str, Any]:
    if not predictions.classes:
        return {"score": guess}
    if value.ndim == 2:
        return {"words": list(example.words), "labels": guess, "probabilities": value.max(axis=-1).tolist()}
    probabilities = dict(
        zip(predictions.classes, value.tolist(), strict=False)
    )  # of as many options as it has
    line = {"label": guess, "probability": max(probabilities.values()), "probabilities": probabilities}
    if hasattr(example, "options"):
        line["option"] = example.options[string.ascii_uppercase.index(guess)]
    return line


def _object(line: str, source: str) -> Mapping[str, Any]:
    try:
        values = json.loads(line)
    except ValueError as error:
        raise InputError(
            f"Every line must be a JSON object, as the first one is. Received {source}: {error}."
        ) from None
    if not isinstance(values, dict):
        raise InputError(f"Every line must be a JSON object. Received {source}: {line[:60]!r}.")
    return values


def _fields(task: Task, line: str, line_format: str, source: str) -> Mapping[str, Any]:
    """The columns of a line of texts."""
    names = _COLUMNS[task.kind]
    fields = [line] if line_format == "text" else line.split("\t")
    if task.kind == "token_classification":
        return {"words": " ".join(fields).split()}
    if task.kind == "multiple_choice":
        if len(fields) <= _NO_OPTIONS:
            raise InputError(
                "A line of multiple choice is a passage, a question and two options or more, with tabs between "
                f"them, or a JSON object. Received {len(fields)} of them in {source}."
            )
        return {**dict(zip(names, fields, strict=False)), "options": fields[len(names) :]}
    if len(fields) > len(names) or (task.kind == "question_answering" and len(fields) < len(names)):
        raise InputError(
            f"A line must have {' and '.join(names)}, with a tab between them, or be a JSON object. Received "
            f"{len(fields)} fields in {source}; --input_format=text takes tabs for text."
        )
    return dict(zip(names, fields, strict=False))
