"""A fine-tuned model on any engine, and its predictions on a task's data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.stored import no_vocabulary
from albert_tf.tasks.answering import TaskFacts
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.features import Features
from albert_tf.tasks.finite import check_finite
from albert_tf.tasks.kind import Kind, Task
from albert_tf.tasks.kinds import find_kind
from albert_tf.tasks.preprocessor import Preprocessor
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.runner import Arrays
from albert_tf.tasks.splits import USUAL_SIZE, BatchSize, EncodedSplit
from albert_tf.tasks.task import find_task, own_data_task
from data_prep.errors import InputError
from data_prep.storage.paths import file_size

RunRows = Callable[[Sequence[Features], BatchSize], list[Arrays]]
USUAL_ANSWER_LENGTH = 30  # tokens


@dataclass(frozen=True)
class TrainedModel:
    """A fine-tuned model, ready to predict, whatever runs it.

    Attributes:
      source: the model's file or folder, for messages.
      facts: what it is for, its classes, and the settings of our run.
      own_preprocessor: None if there is no vocabulary.
      run: from features to the outputs of the Keras model for each, a single array as "output".
      other_names: how to give the classes other names, as the end of a message.
    """

    source: str
    facts: TaskFacts
    own_preprocessor: Preprocessor | None
    run: RunRows
    other_names: str = "--labels gives them other names, in the order of the outputs"

    @property
    def kind(self) -> Kind:
        """The kind of task."""
        return find_kind(self.facts.task_kind)

    @property
    def preprocessor(self) -> Preprocessor:
        """The model's preprocessor; raises InputError if its files hold no vocabulary."""
        if self.own_preprocessor is None:
            raise no_vocabulary(self.source)
        return self.own_preprocessor

    @property
    def max_answer_length(self) -> int:
        """The default maximum length of an answer to a question, in tokens."""
        facts = self.facts
        given = facts.options.get("max_answer_length") or facts.settings.get("max_answer_length")
        return int(given or USUAL_ANSWER_LENGTH)

    def rows(self, split: EncodedSplit, size: BatchSize) -> list[Arrays]:
        """The model's outputs for each of a split's features; raises InputError if they are not finite."""
        rows = self.run(split.features, size)
        for row in rows:
            check_finite("Predictions", row.values())
        return rows

    @property
    def task(self) -> Task:
        """The task that our run was trained on; for a model from elsewhere, own data of its kind."""
        name = self.facts.settings.get("task")
        task = find_task(str(name)) if name else own_data_task(self.kind, self.facts.answerable)
        self.check_task(task)
        return task

    @property
    def columns(self) -> Columns:
        """The columns that our run was trained on; the default ones for a model from elsewhere."""
        return Columns.of_run(self.facts.settings)

    def check_task(self, task: Task) -> None:
        """Raises InputError if the model is for another kind of task, or has other classes."""
        labels = self.facts.labels
        if self.kind is not task.kind:
            raise InputError(
                f"{task.name} needs a model for {task.kind.words}. {self.source} holds one for {self.kind.words}."
            )
        if task.answerable and not self.facts.answerable:
            raise InputError(
                f"{task.name} needs the head of SQuAD 2.0, which may find no answer. {self.source} holds "
                "that of SQuAD 1.1; --task=squad1.1 evaluates its answers."
            )
        if task.labels and task.kind.has_classes and set(labels) != set(task.labels):
            raise InputError(
                f"The classes of {task.name} are {', '.join(task.labels)}. {self.source} has "
                f"{', '.join(labels)}; {self.other_names}."
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
    rows = list[Arrays]()
    splits, predictions = list[EncodedSplit](), list[Any]()
    for name in (role,) if file_size(Path(data)) is not None else task.splits[role]:
        examples = read_examples(task, data, name, problems, columns=columns, labels=model.facts.labels)
        split = preprocessor.split(name, examples, model.facts.labels)
        outputs = model.rows(split, size)
        predictions.append(task.kind.predictions(split, outputs, model.facts, longest))
        splits.append(split)
        rows += outputs
    metrics = task.kind.measure_with_loss(task, splits, predictions, rows)
    return TaskPredictions(splits, predictions, metrics)
