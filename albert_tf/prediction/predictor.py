"""`albert predict`: reads lines, writes a JSON object for each as they arrive."""

import dataclasses
import json
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Literal

from albert_tf.evaluation.run_predictions import Probabilities
from albert_tf.evaluation.squad_predictions import SquadPredictions
from albert_tf.prediction.finite import not_finite
from albert_tf.prediction.splits import USUAL_SIZE, BatchSize, as_split, by_row, numpy_batches
from albert_tf.prediction.task_outputs import Predictions, predictions_of
from albert_tf.prediction.trained_model import TrainedModel
from data_prep.errors import InputError
from data_prep.tasks.examples import Example, Problems, QuestionExample, Split, WordsExample
from data_prep.tasks.own_data import examples_of_rows
from data_prep.tasks.tables import TableRow, parse_json
from data_prep.tasks.task import Task, own_data_task
from data_prep.text.line_stream import arriving_lines

KnownFormat = Literal["text", "tsv", "jsonl"]
LineFormat = Literal["auto", "text", "tsv", "jsonl"]
_COLUMNS = {
    "classification": ("text_a", "text_b"),
    "ordinal_classification": ("text_a", "text_b"),
    "multi_label_classification": ("text_a", "text_b"),
    "regression": ("text_a", "text_b"),
    "question_answering": ("question", "context"),
    "multiple_choice": ("passage", "question"),  # then one column per option
    "token_classification": ("words",),
}
_LEAST_COLUMNS = 4  # of multiple choice: a passage, a question and two options
_LINES = 1024  # lines that are sorted by length and answered together


class Predictor:
    """A fine-tuned model that answers lines.

    Args:
      model: the model; takes text.
      size: of the batches.
      max_answer_length: the longest answer to a question, in tokens.

    Attributes:
      task: the task for own data that fits the model.
    """

    def __init__(self, model: TrainedModel, *, size: BatchSize = USUAL_SIZE, max_answer_length: int = 30):
        self._model, self._preprocessor = model, model.preprocessor
        self._size, self._max_answer_length = size, max_answer_length
        self.task = own_data_task(model.kind, model.answerable)

    def __call__(
        self, lines: Sequence[str], first: int, line_format: KnownFormat
    ) -> Iterator[dict[str, Any]]:
        """Yields the JSON object of each line.

        Args:
          lines: without line ends.
          first: number of the first line.
          line_format: as for `examples_of_lines`.

        Raises:
          InputError: a line is not an example of the model's task.
        """
        model = self._model
        examples = examples_of_lines(self.task, lines, first, line_format)
        split = as_split(self.task, "lines", examples, self._preprocessor, model.labels)
        rows = by_row(model.outputs(numpy_batches(split, self._size)), len(split.features))
        predictions = predictions_of(self.task, split, rows, model, self._max_answer_length)
        return lines_of_predictions(examples, predictions, model.null_threshold)


def predict_stream(
    predictor: Predictor, source: BinaryIO, sink: BinaryIO, line_format: LineFormat = "auto"
) -> None:
    """Answers the lines of a stream, each as soon as it has arrived.

    Args:
      predictor: the model.
      source: UTF-8; only "\\n" ends a line.
      sink: receives one JSON object per line.
      line_format: as for `examples_of_lines`; auto recognizes it by the first line.

    Raises:
      InputError: a line is not UTF-8 or not an example of the model's task, or a prediction is not finite;
        earlier batches are answered.
    """
    known = None if line_format == "auto" else line_format
    done = 0
    for texts in arriving_lines(source, _LINES):
        known = known or format_of(texts[0])
        answers = predictor(texts, done + 1, known)
        sink.write("".join(_json_line(answer) + "\n" for answer in answers).encode("utf-8"))
        sink.flush()
        done += len(texts)


def _json_line(answer: Mapping[str, Any]) -> str:
    try:
        return json.dumps(answer, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise not_finite("Predictions") from None


def format_of(line: str) -> Literal["tsv", "jsonl"]:
    """The format of lines, recognized by the first: JSON objects, or texts separated by tabs."""
    try:
        return "jsonl" if isinstance(parse_json(line), dict) else "tsv"
    except ValueError:
        return "tsv"


def examples_of_lines(
    task: Task, lines: Sequence[str], first: int, line_format: KnownFormat
) -> list[Example]:
    """Reads one example from each line, without its label; its id is the line's number.

    Args:
      task: determines the fields of a line.
      lines: without line ends.
      first: number of the first line.
      line_format: jsonl for objects, tsv for texts separated by tabs, text for one text that may contain tabs.

    Raises:
      InputError: a line is not an example of the task; names the line.
    """
    examples: list[Example] = []
    for number, line in enumerate(lines, start=first):
        source = f"line {number}"
        values = _object(line, source) if line_format == "jsonl" else _fields(task, line, line_format, source)
        problems = Problems()
        row = TableRow({**values, "id": str(number)}, source)
        found = examples_of_rows([row], Split(task, "test", problems))
        if not found:
            raise InputError(f"Every line must be an example of {task.kind}. {'; '.join(problems.lines())}.")
        examples += map(_without_label, found)
    return examples


def _without_label(example: Example) -> Example:
    """An example that is only predicted: its label need not be one of the model's."""
    if isinstance(example, WordsExample):
        return dataclasses.replace(example, labels=None)
    return example if isinstance(example, QuestionExample) else dataclasses.replace(example, label=None)


def lines_of_predictions(
    examples: Sequence[Any], predictions: Predictions, null_threshold: float
) -> Iterator[dict[str, Any]]:
    """Yields the JSON object of each prediction.

    Args:
      examples: as read.
      predictions: for these examples.
      null_threshold: for SQuAD 2.0, null odds above which there is no answer.
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
    # A question may have fewer options than there are classes.
    probabilities = dict(zip(predictions.classes, value.tolist(), strict=False))
    if predictions.thresholds:
        return {"labels": guess, "probabilities": probabilities}
    line = {"label": guess, "probability": max(probabilities.values()), "probabilities": probabilities}
    if hasattr(example, "options"):
        line["option"] = example.options[string.ascii_uppercase.index(guess)]
    return line


def _object(line: str, source: str) -> Mapping[str, Any]:
    try:
        values = parse_json(line)
    except ValueError as error:
        raise InputError(f"Every line must be a JSON object. Received {source}: {error}.") from None
    if not isinstance(values, dict):
        raise InputError(f"Every line must be a JSON object. Received {source}: {line[:60]!r}.")
    return values


def _fields(task: Task, line: str, line_format: str, source: str) -> Mapping[str, Any]:
    """The columns of a line, as texts."""
    names = _COLUMNS[task.kind]
    fields = [line] if line_format == "text" else line.split("\t")
    if task.kind == "token_classification":
        return {"words": " ".join(fields).split()}
    if task.kind == "multiple_choice":
        if len(fields) < _LEAST_COLUMNS:
            raise InputError(
                "A line of multiple choice must be a passage, a question and at least two options, separated by "
                f"tabs, or a JSON object. Received {len(fields)} fields in {source}."
            )
        return {**dict(zip(names, fields, strict=False)), "options": fields[len(names) :]}
    if len(fields) > len(names) or (task.kind == "question_answering" and len(fields) < len(names)):
        raise InputError(
            f"A line must have {' and '.join(names)}, with a tab between them, or be a JSON object. Received "
            f"{len(fields)} fields in {source}; --input_format=text treats tabs as text."
        )
    return dict(zip(names, fields, strict=False))
