"""`albert predict`: reads lines, writes a JSON object for each as they arrive."""

import json
import logging
import string
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from albert_tf.runtime.input_lines import UNNAMED, InputLines, LineFormat
from albert_tf.runtime.trained_model import TrainedModel
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import Example
from albert_tf.tasks.run_predictions import Probabilities
from albert_tf.tasks.spans.answers import SquadPredictions
from albert_tf.tasks.splits import USUAL_SIZE, BatchSize, as_split
from albert_tf.tasks.task import own_data_task
from albert_tf.tasks.task_outputs import Predictions, outside_label, predictions_of
from data_prep.text.line_stream import arriving_lines

_LINES = 1024  # lines that are sorted by length and answered together


class Predictor:
    """A fine-tuned model that answers lines.

    Args:
      model: the model; takes text.
      size: size of the batches.
      max_answer_length: the longest answer to a question, in tokens. Default: the model's.

    Attributes:
      task: the task for own data that fits the model.
      columns: the columns that the model was trained on.
    """

    def __init__(
        self, model: TrainedModel, *, size: BatchSize = USUAL_SIZE, max_answer_length: int | None = None
    ):
        self._model, self._preprocessor = model, model.preprocessor
        self._size, self._max_answer_length = size, max_answer_length or model.max_answer_length
        self.task = own_data_task(model.kind, model.answerable)
        self.columns = Columns.noted(model.preprocessor.columns).replaced_by(model.columns)

    def __call__(self, examples: Sequence[Example]) -> Iterator[dict[str, Any]]:
        """Yields the JSON object of each example."""
        model = self._model
        split = as_split(self.task, "lines", examples, self._preprocessor, model.labels)
        if beyond := split.words_beyond:
            logging.getLogger(__name__).warning(
                "words beyond the model's longest sequence, %s tokens: %s; they are not read and get the label "
                "%s: cut long lines into sentences",
                self._preprocessor.max_seq_length,
                f"{beyond:,}",
                outside_label(model.labels),
            )
        rows = model.rows(split, self._size)
        predictions = predictions_of(self.task, split, rows, model, self._max_answer_length)
        return lines_of_predictions(examples, predictions, model.null_threshold)


def predict_stream(
    predictor: Predictor,
    source: BinaryIO,
    sink: BinaryIO,
    line_format: LineFormat = "auto",
    named: Columns = UNNAMED,
) -> None:
    """Answers the lines of a stream, each as soon as it has arrived.

    Args:
      predictor: the model.
      source: UTF-8; only "\\n" ends a line.
      sink: receives one JSON object per line, or per object or row of a table.
      line_format: as for `InputLines`.
      named: as for `InputLines`.

    Raises:
      InputError: a line is not UTF-8 or not an example of the model's task, or a prediction is not finite;
        earlier batches are answered.
    """
    lines = InputLines(predictor.task, predictor.columns, line_format, named=named)
    for arrived in arriving_lines(source, _LINES):
        examples = lines.examples(arrived)
        answers = predictor(examples) if examples else ()
        lines_of = (json.dumps(answer, ensure_ascii=False, allow_nan=False) + "\n" for answer in answers)
        sink.write("".join(lines_of).encode("utf-8"))
        sink.flush()
    lines.finish()


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
            line: dict[str, Any] = {"answer": texts[example.id]}
            if texts[example.id]:  # if empty, these belong to the text that was rejected
                line |= {"probability": best.probability, "answer_start": best.answer_start}
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
