"""Fine-tuned models of any format, ready to predict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from albert_tf.checkpoints.open_model import named_files
from albert_tf.checkpoints.sources import NO_FLAGS, SourceFlags
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.finetuning.seed_folder import SeedFolder
from albert_tf.runtime.trained_model import TrainedModel, predict_task
from albert_tf.tasks.answering import TaskFacts
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.inference import Inference
from albert_tf.tasks.kind import Kind, Task
from albert_tf.tasks.open_task import for_task, read_source, task_model_of
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.runner import FunctionRunner
from albert_tf.tasks.spans.answers import null_threshold_of
from albert_tf.tasks.task_model import TaskModel
from data_prep.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Finetuned(TrainedModel):
    """A fine-tuned model that Keras runs.

    Attributes:
      model: the model.
    """

    model: TaskModel


def read_finetuned(
    source: str | Path, flags: SourceFlags = NO_FLAGS, task: Task | Kind | None = None
) -> Finetuned:
    """Reads a fine-tuned model of any format.

    Args:
      source: the folder of a fine-tuning run (its best seed is taken) or of one of its seeds, a .keras file, or
        anything else that `load_pretrained` reads and that has the head of a task.
      flags: supply what the files lack; our own files lack at most a vocabulary.
      task: as for `for_task`.

    Raises:
      InputError: `source` cannot be read, holds no fine-tuned model or one for another task, or the flags do not
        fit it.
    """
    with named_files(source) as path:
        return as_finetuned(for_task(read_source(path, flags, quantized=True), task))


def as_finetuned(stored: StoredModel) -> Finetuned:
    """A model with the weights of a `StoredModel`, which `for_task` returned, in the precision of its training."""
    return finetuned_of(task_model_of(stored), stored.path, stored.settings)


def finetuned_of(
    model: TaskModel, path: Path, settings: Mapping[str, Any] = MappingProxyType({})
) -> Finetuned:
    """A Keras model, ready to predict.

    Args:
      model: its classes have their names.
      path: the file or folder that it comes from.
      settings: the settings.json of our run, whose results are beside it; empty for models from elsewhere.
    """
    preprocessor, results = model.preprocessor, SeedFolder(path.parent).read_results() if settings else {}
    facts = TaskFacts(
        model.kind,
        model.labels,
        model.thresholds,
        getattr(model, "answerable", False),
        null_threshold_of(results),
        preprocessor.lengths if preprocessor else {},
        settings=settings,
    )
    run = FunctionRunner(Inference(model).of_batch).rows
    return Finetuned(str(path), facts, preprocessor, run, model=model)


def predict_member(
    member: str,
    task: Task,
    role: str,
    data: str | None,
    flags: SourceFlags,
    problems: Problems,
    columns: Columns | None = None,
) -> Sequence[Any]:
    """The predictions of a member of an ensemble for each of the task's splits.

    Args:
      member: a source for `read_finetuned`.
      task: the task of the ensemble.
      role: "dev" or "test".
      data: as for `predict_task`; None for the data that our run was trained with.
      flags: as for `read_finetuned`.
      problems: as for `predict_task`.
      columns: the columns of own data, for a member that is no run of ours. Default: the usual names.

    Raises:
      InputError: as `read_finetuned` and `predict_task`, or the data is not known.
    """
    finetuned = read_finetuned(member, flags, task)
    settings = finetuned.facts.settings
    data = data or settings.get(f"{role}_file") or settings.get("data_dir")
    if not data:
        raise InputError(
            f"{member} has no predictions for the {role} set yet. Name the task's folder, or a file, with "
            "--data_dir."
        )
    columns = None if settings else columns
    found = predict_task(finetuned, task, str(data), problems, role, columns=columns)
    if len(found.predictions) != len(task.splits[role]):
        raise InputError(
            f"--data_dir must be a folder with {' and '.join(task.splits[role])}. Received {data}, a file."
        )
    return found.predictions
