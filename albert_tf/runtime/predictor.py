"""`albert predict`: reads lines, writes a JSON object for each as they arrive."""

import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from albert_tf.runtime.input_lines import UNNAMED, InputLines, LineFormat
from albert_tf.runtime.trained_model import TrainedModel
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.splits import USUAL_SIZE, BatchSize, Example
from albert_tf.tasks.task import own_data_task
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
        self.task = own_data_task(model.kind, model.facts.answerable)
        self.columns = Columns.noted(model.preprocessor.columns).replaced_by(model.columns)

    def __call__(self, examples: Sequence[Example]) -> Iterator[dict[str, Any]]:
        """Yields the JSON object of each example."""
        model, facts = self._model, self._model.facts
        kind, split = model.kind, self._preprocessor.split("lines", examples, facts.labels)
        if warning := kind.warning(split, self._preprocessor, facts.labels):
            logging.getLogger(__name__).warning("%s", warning)
        rows = model.rows(split, self._size)
        predictions = kind.predictions(split, rows, facts, self._max_answer_length)
        return kind.lines(examples, predictions, facts.null_threshold)


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
