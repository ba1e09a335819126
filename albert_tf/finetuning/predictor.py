"""`albert predict`: lines of text in, a JSON object for each out, as they come."""

import json
import string
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

from albert_tf.evaluation.run_predictions import Probabilities
from albert_tf.evaluation.squad_predictions import SquadPredictions
from albert_tf.finetuning.inference import Inference, by_row
from albert_tf.finetuning.run_folder import find_seed_folder
from albert_tf.finetuning.task_data import as_split, numpy_batches
from albert_tf.finetuning.task_models import task_of
from albert_tf.finetuning.task_outputs import EVEN_ODDS, Predictions, predictions_of
from data_prep.errors import InputError
from data_prep.tasks.columns import Columns
from data_prep.tasks.examples import Example, Problems
from data_prep.tasks.own_data import examples_of_rows
from data_prep.tasks.tables import TableRow
from data_prep.tasks.task import Task
from data_prep.tokenizers.token_stream import batches_of_lines, decode_lines

LineFormat = Literal["auto", "text", "tsv", "jsonl"]
_COLUMNS = {
    "classification": ("text_a", "text_b"),
    "regression": ("text_a", "text_b"),
    "question_answering": ("question", "context"),
    "multiple_choice": ("passage", "question"),  # and an option a column
    "token_classification": ("words",),
}
_NO_OPTIONS = 3  # a line of multiple choice has a passage, a question and two options at least
_LINES = 1024  # read, sorted by length and answered together


class Predictor:
    """A fine-tuned model that answers lines.

    Args:
      model_dir: a run's folder, or that of one of its seeds.
    """

    def __init__(self, model_dir: str | Path, *, batch_size: int = 64, max_answer_length: int = 30):
        folder = find_seed_folder(model_dir)
        self._model = folder.load_model()
        self._inference = Inference(self._model)
        self._batch_size, self._max_answer_length = batch_size, max_answer_length
        self._null_threshold = folder.read_results().get("dev", {}).get("best_f1_thresh", EVEN_ODDS)
        self.task = task_of(self._model)

    def __call__(
        self, lines: Sequence[str], first: int, line_format: Literal["text", "tsv", "jsonl"]
    ) -> Iterator[dict[str, Any]]:
        """An object for JSON for each line.

        Args:
          lines: without their ends.
          first: number of the first one.
          line_format: what they are.

        Raises:
          InputError: a line is not an example of the model's task.
        """
        examples = examples_of_lines(self.task, lines, first, line_format)
        split = as_split(self.task, "lines", examples, self._model.preprocessor, self._model.labels)
        outputs = map(self._inference.of_batch, numpy_batches(split, self._batch_size))
        rows = by_row(outputs, len(split.features))
        predictions = predictions_of(self.task, split, rows, self._model.labels, self._max_answer_length)
        return lines_of_predictions(examples, predictions, self._null_threshold)


def predict_stream(
    predictor: Predictor, source: BinaryIO, sink: BinaryIO, line_format: LineFormat = "auto"
) -> None:
    """Writes a JSON object for each line, as soon as the lines that have arrived are answered.

    Args:
      predictor: the model.
      source: UTF-8; only "\\n" ends a line.
      sink: where the objects go, one a line.
      line_format: what a line is; auto goes by the first one.

    Raises:
      InputError: a line is not UTF-8, or not an example of the model's task; the lines before its batch are
        answered.
    """
    done = 0
    for arrived in batches_of_lines(source):
        for begin in range(0, len(arrived), _LINES):
            texts, problem = decode_lines(arrived[begin : begin + _LINES], done)
            if texts and line_format == "auto":
                line_format = format_of(texts[0])
            if texts:
                assert line_format != "auto"
                answers = predictor(texts, done + 1, line_format)
                sink.write(
                    "".join(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers).encode(
                        "utf-8"
                    )
                )
                sink.flush()
            if problem is not None:
                raise problem
            done += len(texts)


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
