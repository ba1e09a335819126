"""Fine-tuned models of any format, ready to predict."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from albert_tf.checkpoints.heads import default_names
from albert_tf.checkpoints.keras_models import MODEL_FILE, find_model_file, read_keras
from albert_tf.checkpoints.open_model import named_files
from albert_tf.checkpoints.run_files import SETTINGS_FILE
from albert_tf.checkpoints.sources import NO_FLAGS, SourceFlags
from albert_tf.checkpoints.stored import StoredModel, check_vocabulary
from albert_tf.finetuning.seed_folder import SeedFolder
from albert_tf.runtime.trained_model import TrainedModel, predict_task
from albert_tf.tasks.answering import TaskFacts
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.inference import Inference
from albert_tf.tasks.kind import Kind, Task
from albert_tf.tasks.kinds import find_kind
from albert_tf.tasks.open_task import choose_task, kinds_of, read_source
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.runner import FunctionRunner
from albert_tf.tasks.saved_models import load_task_model
from albert_tf.tasks.spans.answers import null_threshold_of
from albert_tf.tasks.task import wrong_kind
from albert_tf.tasks.task_model import TaskModel
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Finetuned(TrainedModel):
    """A fine-tuned model that Keras runs.

    Attributes:
      model: the model.
      read_stored: reads the model's files into a `StoredModel`.
    """

    model: TaskModel
    read_stored: Callable[[], StoredModel]

    @cached_property
    def stored(self) -> StoredModel:
        """The `StoredModel` of its files, a second copy of the weights, which only exports need."""
        return self.read_stored()

    @classmethod
    def of(
        cls,
        model: TaskModel,
        path: Path,
        read_stored: Callable[[], StoredModel],
        settings: Mapping[str, Any] = MappingProxyType({}),
        results: Mapping[str, Any] = MappingProxyType({}),
    ) -> "Finetuned":
        """The model of a file or folder.

        Args:
          model: its classes have their names.
          path: the file or folder.
          read_stored: as the attribute.
          settings: the settings.json of our run; empty for models from elsewhere.
          results: the metrics of our run; empty for models from elsewhere.
        """
        preprocessor = model.preprocessor
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
        return cls(str(path), facts, preprocessor, run, model=model, read_stored=read_stored)


def read_finetuned(
    source: str | Path,
    flags: SourceFlags = NO_FLAGS,
    task: Task | Kind | None = None,
    classes: Collection[type[TaskModel]] = (),
) -> Finetuned:
    """Reads a fine-tuned model of any format.

    Args:
      source: the folder of a fine-tuning run (its best seed is taken) or of one of its seeds, a .keras file, or
        anything else that `load_pretrained` reads and that has the head of a task.
      flags: supply what the files lack; our own files lack at most a vocabulary.
      task: what the head is for, if the files leave it open. A task with its own classes names those of the
        head, in its own order, if the files do not.
      classes: the task models that are wanted; default: any.

    Raises:
      InputError: `source` cannot be read, holds no fine-tuned model or one for another task, or the flags do not
        fit it.
    """
    kind = task.kind if isinstance(task, Task) else task
    names = task.labels if isinstance(task, Task) else ()
    with named_files(source) as path:
        if file := find_model_file(path):
            found = _read_own(file, flags, classes, names)
        else:
            found = finetuned_of(read_source(path, flags), flags, classes, kind, names)
        if Path(source).is_file() and path != Path(source):
            _ = found.stored  # now: the files of an archive are removed after this block
    if kind not in (None, found.kind):
        raise wrong_kind(kind, source, found.kind)
    return found


def _name_classes(model: TaskModel, flags: SourceFlags, names: tuple[str, ...]) -> None:
    """Gives the classes of a head the names of --labels, or the task's `names` if they have none yet.

    Raises:
      InputError: --labels has more or fewer names.
    """
    if flags.label_names and len(flags.label_names) != len(model.labels):
        raise InputError(
            f"--labels must name each class of the head, {len(model.labels)}. Received {flags.labels}."
        )
    if flags.label_names or (names and model.labels == default_names(len(names))):
        model.labels = flags.label_names or names


def _read_own(
    file: Path, flags: SourceFlags, classes: Collection[type[TaskModel]], names: tuple[str, ...]
) -> Finetuned:
    """Reads a .keras file, with settings and results if it belongs to a run."""
    model = load_task_model(file, classes)
    if flags.albert_config_file or (flags.vocab_file and model.preprocessor):
        raise InputError(
            f"--albert_config_file and --vocab_file are for models without these. {file} holds both; "
            "leave the flags out."
        )
    config = model.encoder.config
    if flags.vocab_file:
        model.preprocessor = model.preprocessor_of_finetuned(Vocabulary.read(flags.vocab_file), config)
    vocabulary = model.preprocessor.vocabulary if model.preprocessor else None
    check_vocabulary(StoredModel("keras", file, config, {}, vocabulary))

    def read_stored() -> StoredModel:
        if "quantized" in model.encoder.get_config():
            stored = StoredModel("keras", file, config, {v.path: np.asarray(v) for v in model.weights})
        else:
            stored = read_keras(file)  # for README.md: weights under our names, and the head
        return replace(stored, vocabulary=vocabulary, notes=(_describe(model),))

    _name_classes(model, flags, names)
    folder = SeedFolder(file.parent)
    if file.name != MODEL_FILE or not (folder.path / SETTINGS_FILE).exists():
        return Finetuned.of(model, file, read_stored)
    return Finetuned.of(model, file, read_stored, folder.read_settings(), folder.read_results())


def finetuned_of(
    stored: StoredModel,
    flags: SourceFlags,
    classes: Collection[type[TaskModel]],
    kind: Kind | None = None,
    names: tuple[str, ...] = (),
) -> Finetuned:
    """The fine-tuned model of files in another format than ours.

    Args:
      stored: the model that `read_source` returned.
      flags: as for `read_finetuned`.
      classes: as for `read_finetuned`.
      kind: of the task, if the files leave it open.
      names: of the classes, if the files do not name them.

    Raises:
      InputError: as `read_finetuned`.
    """
    if stored.head is None:
        raise InputError(
            f"{stored.path} must hold a fine-tuned model. Received one without the head of a task; "
            "`albert finetune` trains it."
        )
    wanted = [one for one in kinds_of(stored.head) if one.model in classes]
    head = choose_task(stored.head, kind or (wanted[0] if len(wanted) == 1 else None))
    model_class = find_kind(head.kind).model
    if classes and model_class not in classes:
        expected = " or ".join(one.__name__ for one in classes)
        raise InputError(f"{stored.path} must hold a {expected}. Received a {model_class.__name__}.")
    model = model_class.from_finetuned(replace(stored, head=head), dtype="float32")
    _name_classes(model, flags, names)
    return Finetuned.of(
        model,
        stored.path,
        lambda: replace(stored, head=head, notes=(*stored.notes, _describe(model))),
    )


def _describe(model: TaskModel) -> str:
    """A note for README.md."""
    labels = f", labels {', '.join(model.labels)}" if model.labels else ""
    thresholds = f", thresholds {', '.join(map('{:g}'.format, model.thresholds))}" if model.thresholds else ""
    return f"fine-tuned: {type(model).__name__}{labels}{thresholds}"


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
