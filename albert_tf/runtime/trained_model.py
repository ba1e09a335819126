"""A fine-tuned model on any engine, and its predictions on a task's data."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.tasks.columns import Columns
from albert_tf.tasks.finite import check_finite
from albert_tf.tasks.kind import Kind, Task
from albert_tf.tasks.preprocessor import Preprocessor
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.splits import USUAL_SIZE, BatchSize, EncodedSplit, by_row, numpy_batches
from albert_tf.tasks.task import find_task, own_data_task
from data_prep.errors import InputError

Batch = dict[str, np.ndarray]
USUAL_ANSWER_LENGTH = 30  # tokens


class TrainedModel(ABC):
    """A fine-tuned model, ready to predict.

    Attributes:
      source: the model's file or folder, for messages.
      kind: the kind of task.
      labels: the classes in the model's order.
      thresholds: in multi-label classification, the lowest probability at which a text gets each label.
      answerable: in question answering, whether it may find no answer.
      settings: the settings.json of our run; empty for models from elsewhere.
      null_threshold: for SQuAD 2.0, the null odds above which there is no answer.
      preprocessor: raises InputError if there is no vocabulary.
    """

    settings: Mapping[str, Any]

    @property
    @abstractmethod
    def source(self) -> str: ...
    @property
    @abstractmethod
    def kind(self) -> Kind: ...
    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]: ...
    @property
    @abstractmethod
    def thresholds(self) -> tuple[float, ...]: ...
    @property
    @abstractmethod
    def answerable(self) -> bool: ...
    @property
    @abstractmethod
    def null_threshold(self) -> float: ...
    @property
    @abstractmethod
    def preprocessor(self) -> Preprocessor: ...

    @property
    def other_names(self) -> str:
        """How to give the classes other names, as the end of a message."""
        return "--labels gives them other names, in the order of the outputs"

    @property
    def max_answer_length(self) -> int:
        """The default maximum length of an answer to a question, in tokens."""
        return int(self.settings.get("max_answer_length") or USUAL_ANSWER_LENGTH)

    @abstractmethod
    def outputs(self, batches: Iterable[Batch]) -> Iterator[dict[str, np.ndarray]]:
        """The model's outputs for each batch.

        Args:
          batches: from `numpy_batches`.

        Yields:
          As `Inference`: a single array as "output"; "index", the examples' row numbers.
        """

    def rows(self, split: EncodedSplit, size: BatchSize) -> list[dict[str, np.ndarray]]:
        """The model's outputs for each of a split's features; raises InputError if they are not finite."""

        def finite() -> Iterator[dict[str, np.ndarray]]:
            for found in self.outputs(numpy_batches(split, size)):
                check_finite("Predictions", found.values())
                yield found

        return by_row(finite(), len(split.features))

    @property
    def task(self) -> Task:
        """The task that our run was trained on; for a model from elsewhere, own data of its kind."""
        name = self.settings.get("task")
        task = find_task(str(name)) if name else own_data_task(self.kind, self.answerable)
        self.check_task(task)
        return task

    @property
    def columns(self) -> Columns:
        """The columns that our run was trained on; the default ones for a model from elsewhere."""
        return Columns.of_run(self.settings)

    def check_task(self, task: Task) -> None:
        """Raises InputError if the model is for another kind of task, or has other classes."""
        if self.kind is not task.kind:
            raise InputError(
                f"{task.name} needs a model for {task.kind.words}. {self.source} holds one for {self.kind.words}."
            )
        if task.answerable and not self.answerable:
            raise InputError(
                f"{task.name} needs the head of SQuAD 2.0, which may find no answer. {self.source} holds "
                "that of SQuAD 1.1; --task=squad1.1 evaluates its answers."
            )
        if task.labels and task.kind.has_classes and set(self.labels) != set(task.labels):
            raise InputError(
                f"The classes of {task.name} are {', '.join(task.labels)}. {self.source} has "
                f"{', '.join(self.labels)}; {self.other_names}."
            )


@dataclass(frozen=True)
class TaskPredictions:
    """A model's predictions on the splits of a role.

    Attributes:
      splits: the splits.
      predictions: the predictions for each split.
      metrics: the task's metrics over all splits; empty if labels are unknown.
    """

    splits: Sequence[EncodedSplit]
    predictions: Sequence[Any]
    metrics: Mapping[str, float]


def predict_task(
    model: TrainedModel,
    task: Task,
    data: str,
    problems: Problems,
    role: str = "dev",
    *,
    columns: Columns | None = None,
    size: BatchSize = USUAL_SIZE,
    max_answer_length: int | None = None,
) -> TaskPredictions:
    """Predicts the examples of a task.

    Args:
      model: the model.
      task: the task.
      data: the task's folder, a file, or tfds:NAME.
      problems: collects rows of the data that cannot be used.
      role: "dev" or "test".
      columns: of own data; default: those that our run was trained on.
      size: of the batches.
      max_answer_length: of an answer to a question, in tokens. Default: the model's.

    Raises:
      InputError: the model is for another task or has other classes, or the data cannot be read.
    """
    if not task.splits[role]:
        roles = " and ".join(name for name, splits in task.splits.items() if splits)
        raise InputError(f"{task.name} has no {role} set. It only has a {roles} set.")
    model.check_task(task)
    preprocessor = model.preprocessor
    longest = max_answer_length or model.max_answer_length
    columns = columns or model.columns
    rows = list[dict[str, np.ndarray]]()
    splits, predictions = list[EncodedSplit](), list[Any]()
    for name in (role,) if Path(data).is_file() else task.splits[role]:
        examples = read_examples(task, data, name, problems, columns=columns, labels=model.labels)
        split = preprocessor.split(name, examples, model.labels)
        outputs = model.rows(split, size)
        predictions.append(task.kind.predictions(split, outputs, model, longest))
        splits.append(split)
        rows += outputs
    metrics = task.kind.measure_with_loss(task, splits, predictions, rows)
    return TaskPredictions(splits, predictions, metrics)
