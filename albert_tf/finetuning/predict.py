"""`albert predict`: lines of text in, a JSON object for each out, as they come."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

from albert_tf.finetuning.inference import Inference, by_row
from albert_tf.finetuning.model_file import MODEL_FILE
from albert_tf.finetuning.prediction_lines import (
    LineFormat,
    examples_of_lines,
    format_of,
    lines_of_predictions,
)
from albert_tf.finetuning.results import RESULTS_FILE
from albert_tf.finetuning.run_folder import load_finetuned, seed_results
from albert_tf.finetuning.task_data import as_split, prediction_batches
from albert_tf.finetuning.task_models import task_of
from albert_tf.finetuning.task_outputs import EVEN_ODDS, predictions_of
from albert_tf.pretrained.own import best_seed
from data_prep.errors import InputError
from data_prep.tokenizers.token_stream import batches_of_lines, decode_lines

_LINES = 1024  # read, sorted by length and answered together


def find_seed(model_dir: str | Path) -> Path:
    """The folder with the model: of a run with several seeds that of the best one on the dev set.

    Raises:
      InputError: there is no fine-tuned model.
    """
    folder = Path(model_dir)
    if (folder / MODEL_FILE).exists():
        return folder
    if seed := best_seed(folder):
        return seed
    raise InputError(
        "--model_dir must be the folder of a fine-tuned model, what --output_dir was in `albert finetune`. "
        f"Received {folder}, which holds neither {RESULTS_FILE} nor {MODEL_FILE}."
    )


class Predictor:
    """A fine-tuned model that answers lines.

    Args:
      model_dir: a run's folder, or that of one of its seeds.
    """

    def __init__(self, model_dir: str | Path, *, batch_size: int = 64, max_answer_length: int = 30):
        run = find_seed(model_dir)
        self._model = load_finetuned(run)
        self._inference = Inference(self._model)
        self._batch_size, self._max_answer_length = batch_size, max_answer_length
        self._null_threshold = seed_results(run).get("dev", {}).get("best_f1_thresh", EVEN_ODDS)
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
        outputs = map(self._inference.of_batch, prediction_batches(split, self._batch_size))
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
