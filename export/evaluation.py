"""Measures what a model loses in another runtime, on an evaluation file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from albert_tf.runtime.finetuned import Finetuned
from albert_tf.runtime.pretrained import Pretrained
from albert_tf.tasks.hub_names import TEXT_INPUTS, to_hub_names
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.runner import FunctionRunner, Runner
from albert_tf.tasks.splits import BatchSize
from albert_tf.tasks.task_model import TaskModel
from data_prep.errors import InputError
from data_prep.reading.dataset import pretraining_dataset
from data_prep.reading.example_files import ExampleFiles
from data_prep.text.sources import expand_files
from export.export_flags import Quantization

_BATCH = 8


@dataclass(frozen=True)
class Evaluation:
    """A metric on an evaluation file.

    Attributes:
      measure: computes the metric of a model.
      metric: the name of the metric.
      file: the evaluation file.
      counted: the content of the file, in words.
    """

    measure: Callable[[Runner], float]
    metric: str
    file: str
    counted: str

    def change(self, before: float, run: Runner, quantize: str, max_loss: float | None) -> str:
        """A sentence on the metric before and with `run`.

        Args:
          before: the metric of the model.
          run: runs the file.
          quantize: how the file is quantized.
          max_loss: the largest loss allowed, as a share of `before`; None allows any.

        Raises:
          InputError: the loss is larger.
        """
        after = self.measure(run)
        sentence = (
            f"{self.metric} on {self.file}: {before:.4f} before, {after:.4f} in the file (quantize={quantize}), "
            f"a change of {after - before:+.4f}; {self.counted}"
        )
        if max_loss is not None and not before - after <= max_loss * abs(before):  # NaN is refused too
            raise InputError(
                f"A file may lose at most {max_loss:g} of its metric. Received {sentence}. Use a --quantize that "
                "loses less (int8, float16, none), or raise --max_loss."
            )
        return sentence


class EvalFile(NamedTuple):
    """An evaluation file.

    Attributes:
      path: as --eval_file.
      max_loss: as --max_loss; None is the default of the quantization.
    """

    path: str
    max_loss: float | None = None

    def limit(self, quantize: Quantization) -> float | None:
        """The share of the metric that may be lost."""
        return 0.01 if self.max_loss is None and quantize == "int8-static" else self.max_loss


def recorded(run: Runner, batches: list[dict[str, np.ndarray]]) -> Runner:
    """`run`, which also appends its inputs to `batches`."""

    def run_and_record(inputs):
        batches.append(inputs)
        return run(inputs)

    return FunctionRunner(run_and_record)


def masked_lm_evaluation(eval_file: str, pretrained: Pretrained) -> Evaluation:
    """The masked-LM accuracy of a pretrained model on TFRecord files of pretraining examples.

    Args:
      eval_file: globs allowed.
      pretrained: the model.

    Raises:
      InputError: the model has no masked-LM head, or the examples do not fit it or cannot be read.
    """
    if "masked_lm" in pretrained.missing:
        raise InputError(
            "--eval_file measures masked-LM accuracy, and --model_dir holds no masked-LM head. Leave the flag "
            "out; --quantize=int8-static, which needs the flag, is then not possible."
        )
    batches = _pretraining_batches(eval_file, pretrained)
    count = sum(int(np.sum(batch["masked_lm_weights"] > 0)) for batch in batches)
    return Evaluation(
        lambda run: masked_lm_accuracy(run, batches),
        "masked-LM accuracy",
        eval_file,
        f"{count:,} predictions",
    )


def _pretraining_batches(eval_file: str, pretrained: Pretrained) -> list[dict[str, np.ndarray]]:
    """All examples of TFRecord files.

    Raises:
      InputError: they do not fit the model or cannot be read.
    """
    files = ExampleFiles.read(expand_files(eval_file), vocab_size=pretrained.config.vocab_size)
    T, longest = files.max_seq_length, pretrained.config.max_position_embeddings
    if T > longest:
        raise InputError(f"--eval_file must have examples of at most {longest} tokens. Received {T}.")
    dataset = pretraining_dataset(files, batch_size=_BATCH, repeat=False)
    return [{name: np.asarray(array) for name, array in batch.items()} for batch in dataset]


def masked_lm_accuracy(run: Runner, batches: Sequence[dict[str, np.ndarray]]) -> float:
    """The share of masked tokens whose most probable piece is the right one.

    Args:
      run: returns `mlm_logits` (B, P, V), or `ids` (B, P, K) of pieces by probability.
      batches: as from `pretraining_dataset`.
    """
    right = total = 0
    for batch in batches:
        outputs = run(to_hub_names(batch))
        best = (
            outputs["ids"][..., 0] if "ids" in outputs else np.argmax(outputs["mlm_logits"], axis=-1)
        )  # (B, P)
        counted = batch["masked_lm_weights"] > 0
        right += int(np.sum((best == batch["masked_lm_ids"]) & counted))
        total += int(np.sum(counted))
    return right / max(total, 1)


def embedding_evaluation(eval_file: str, pretrained: Pretrained, exact: Runner) -> Evaluation:
    """The mean cosine of embeddings and those of `exact`, on TFRecord files of pretraining examples.

    Raises:
      InputError: the examples do not fit the model or cannot be read.
    """
    examples = [
        {name: array for name, array in to_hub_names(batch).items() if name in TEXT_INPUTS}
        for batch in _pretraining_batches(eval_file, pretrained)
    ]

    def embeddings(run: Runner) -> np.ndarray:
        return np.concatenate([run(inputs)["embedding"] for inputs in examples]).astype("float64")

    expected = embeddings(exact)

    def measure(run: Runner) -> float:
        found = embeddings(run)
        products = np.sum(found * expected, axis=-1)
        return float(np.mean(products / np.linalg.norm(found, axis=-1) / np.linalg.norm(expected, axis=-1)))

    return Evaluation(measure, "cosine with the model's embedding", eval_file, f"{len(expected):,} examples")


def task_evaluation(
    eval_file: str, model: TaskModel, finetuned: Finetuned, max_answer_length: int | None = None
) -> Evaluation:
    """The main metric of a fine-tuned model.

    Args:
      eval_file: as --dev_file of `albert finetune`.
      model: in the precision of the export.
      finetuned: the model as read, with the task that it was trained on.
      max_answer_length: of an answer to a question, in tokens. Default: the model's.

    Raises:
      InputError: the file cannot be read, or belongs to another task.
    """
    task, columns, problems = finetuned.task, finetuned.columns, Problems()
    examples = read_examples(
        task, eval_file, task.splits["dev"][0], problems, columns=columns, labels=model.labels
    )
    split = finetuned.preprocessor.split("dev", examples, model.labels)
    metric, longest = task.main_metric, max_answer_length or finetuned.max_answer_length

    def measure(run: Runner) -> float:
        runner = FunctionRunner(lambda batch: task.kind.task_outputs(run(to_hub_names(batch))))
        rows = runner.rows(split.features, BatchSize(_BATCH))
        predictions = task.kind.predictions(split, rows, model, longest)
        return task.kind.measure(task, [split], [predictions])[metric]

    left_out = f"; {', '.join(problems.lines())}" if problems.lines() else ""
    return Evaluation(measure, metric, eval_file, f"{len(examples):,} examples{left_out}")
