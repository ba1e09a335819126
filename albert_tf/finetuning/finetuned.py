"""Fine-tuned models of any format, ready to predict, and their predictions on a task's data."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.finetuning.inference import Inference, by_row
from albert_tf.finetuning.preprocessor import Preprocessor
from albert_tf.finetuning.run_folder import SeedFolder, load_task_model
from albert_tf.finetuning.task_data import Split, as_split, numpy_batches
from albert_tf.finetuning.task_model import TaskModel
from albert_tf.finetuning.task_models import TASK_MODELS, task_of
from albert_tf.finetuning.task_outputs import EVEN_ODDS, Predictions, metrics_with_loss, predictions_of
from albert_tf.pretrained.heads import choose_task, default_names
from albert_tf.pretrained.loading import read_source
from albert_tf.pretrained.own import MODEL_FILE, find_model_file, read_keras
from albert_tf.pretrained.recognition import named_files
from albert_tf.pretrained.sources import NO_FLAGS, SourceFlags
from albert_tf.pretrained.stored import StoredModel, check_vocabulary
from albert_tf.training.run_files import SETTINGS_FILE
from data_prep.errors import InputError
from data_prep.tasks.columns import LABEL_SEPARATOR, Columns
from data_prep.tasks.examples import Problems
from data_prep.tasks.reading import read_examples
from data_prep.tasks.task import Kind, Task, find_task
from data_prep.tokenizers.vocabulary import Vocabulary


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned model, ready to predict.

    Attributes:
      model: the model.
      stored: the model as its files hold it.
      settings: the settings.json of our run; empty for models from elsewhere.
      results: what our run has measured; empty for models from elsewhere.
    """

    model: TaskModel
    stored: StoredModel
    settings: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)

    @property
    def preprocessor(self) -> Preprocessor:
        """The model's preprocessor.

        Raises:
          InputError: it has none, since its files hold no vocabulary.
        """
        if self.model.preprocessor is None:
            raise InputError(
                f"Taking text needs a vocabulary, which {self.stored.path} does not hold. Name the SentencePiece "
                "model or the WordPiece vocab.txt with --vocab_file."
            )
        return self.model.preprocessor

    @property
    def task(self) -> Task:
        """The task that our run was trained on; of a model from elsewhere, own data of its kind."""
        name = self.settings.get("task")
        task = find_task(str(name)) if name else task_of(self.model)
        self.check_task(task)
        return task

    @property
    def columns(self) -> Columns:
        """The columns that our run was trained on; the default ones for a model from elsewhere."""
        separator = self.settings.get("label_separator", LABEL_SEPARATOR)
        return Columns.named(str(self.settings.get("column_names", "")), str(separator))

    @property
    def null_threshold(self) -> float:
        """For SQuAD 2.0, the null odds above which there is no answer: the best on the dev set of our run."""
        dev = self.results.get("dev")
        threshold = dev.get("best_f1_thresh", EVEN_ODDS) if isinstance(dev, dict) else EVEN_ODDS
        if not isinstance(threshold, int | float):
            raise InputError(f"`best_f1_thresh` in results.json must be a number. Received {threshold!r}.")
        return threshold

    def check_task(self, task: Task) -> None:
        """Raises InputError if the model is for another kind of task, or has other classes."""
        model, path = self.model, self.stored.path
        if model.kind != task.kind:
            raise InputError(
                f"{task.name} needs a model for {task.kind.replace('_', ' ')}. {path} holds one for "
                f"{model.kind.replace('_', ' ')}."
            )
        if task.answerable and not getattr(model, "answerable", False):
            raise InputError(
                f"{task.name} needs the head of SQuAD 2.0, which may find no answer. {path} holds "
                "that of SQuAD 1.1; --task=squad1.1 evaluates its answers."
            )
        if task.labels and task.has_classes and set(model.labels) != set(task.labels):
            raise InputError(
                f"The classes of {task.name} are {', '.join(task.labels)}. {path} has "
                f"{', '.join(model.labels)}; --labels gives them other names, in the order of the outputs."
            )


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
      flags: what the files leave open; our own leave nothing open but a vocabulary.
      task: what the head is for, if the files leave it open. A task with classes of its own names those of the
        head if the files do not, and orders them.
      classes: the task models that are wanted; default: any.

    Raises:
      InputError: `source` cannot be read, holds no fine-tuned model or one for another task, or the flags do not
        fit it.
    """
    kind = task.kind if isinstance(task, Task) else task
    names = task.labels if isinstance(task, Task) else ()
    with named_files(source) as path:
        if file := find_model_file(path):
            found = _read_own(file, flags, classes)
        else:
            found = _read_other(path, flags, kind, classes)
    model = found.model
    if kind not in (None, model.kind):
        raise InputError(
            f"--task={kind} needs a model for it. {source} holds one for {model.kind.replace('_', ' ')}."
        )
    if flags.label_names and len(flags.label_names) != len(model.labels):
        raise InputError(
            f"--labels must name each class of the head, {len(model.labels)}. Received {flags.labels}."
        )
    if flags.label_names or (names and model.labels == default_names(len(names))):
        model.labels = flags.label_names or names
    return found


def _read_own(file: Path, flags: SourceFlags, classes: Collection[type[TaskModel]]) -> Finetuned:
    """Reads a .keras file, and what our run says of it if it is a run's."""
    model = load_task_model(file, classes)
    if flags.albert_config_file or (flags.vocab_file and model.preprocessor):
        raise InputError(
            f"--albert_config_file and --vocab_file are for files without these. {file} holds both; "
            "leave the flags out."
        )
    config = model.encoder.config
    if flags.vocab_file:
        model.preprocessor = model.new_preprocessor(Vocabulary.read(flags.vocab_file), None, config)
    vocabulary = model.preprocessor.vocabulary if model.preprocessor else None
    if "quantized" in model.encoder.get_config():
        stored = StoredModel("keras", file, config, {v.path: np.asarray(v) for v in model.weights})
    else:
        stored = read_keras(file)  # its weights under our names, and its head, for a card
    stored = replace(stored, vocabulary=vocabulary, notes=(_describe(model),))
    check_vocabulary(stored)
    folder = SeedFolder(file.parent)
    if file.name != MODEL_FILE or not (folder.path / SETTINGS_FILE).exists():
        return Finetuned(model, stored)
    return Finetuned(model, stored, folder.read_settings(), folder.read_results())


def _read_other(
    path: Path, flags: SourceFlags, kind: Kind | None, classes: Collection[type[TaskModel]]
) -> Finetuned:
    """Builds the task model of files in another format."""
    stored = read_source(path, flags)
    if stored.head is None:
        raise InputError(
            f"{path} must hold a fine-tuned model. Received one without the head of a task; `albert finetune` "
            "trains it."
        )
    wanted = [one for one in stored.head.kinds if TASK_MODELS[one] in classes]
    head = choose_task(stored.head, kind or (wanted[0] if len(wanted) == 1 else None))
    model_class = TASK_MODELS[head.kinds[0]]
    if classes and model_class not in classes:
        expected = " or ".join(one.__name__ for one in classes)
        raise InputError(f"{path} must hold a {expected}. Received a {model_class.__name__}.")
    model = model_class.from_finetuned(replace(stored, head=head))
    return Finetuned(model, replace(stored, head=head, notes=(*stored.notes, _describe(model))))


def _describe(model: TaskModel) -> str:
    """A note for README.md."""
    labels = f", labels {', '.join(model.labels)}" if model.labels else ""
    thresholds = f", thresholds {', '.join(map('{:g}'.format, model.thresholds))}" if model.thresholds else ""
    return f"fine-tuned: {type(model).__name__}{labels}{thresholds}"


@dataclass(frozen=True)
class TaskPredictions:
    """A model's predictions on the splits of a role.

    Attributes:
      splits: the splits.
      predictions: those for each split.
      metrics: the task's metrics over all splits; empty if labels are unknown.
      problems: rows of the data that cannot be used.
    """

    splits: Sequence[Split]
    predictions: Sequence[Predictions]
    metrics: Mapping[str, float]
    problems: Problems


def predict_task(
    finetuned: Finetuned,
    task: Task,
    data: str,
    role: str = "dev",
    *,
    columns: Columns | None = None,
    batch_size: int = 64,
    max_answer_length: int = 30,
) -> TaskPredictions:
    """Predicts the examples of a task.

    Args:
      finetuned: the model.
      task: the task.
      data: the task's folder, a file, or tfds:NAME.
      role: "dev" or "test".
      columns: of own data; default: those that our run was trained on.
      batch_size: the most examples in a batch.
      max_answer_length: of an answer to a question, in tokens.

    Raises:
      InputError: the model is for another task or has other classes, or the data cannot be read.
    """
    if not task.splits[role]:
        raise InputError(f"{task.name} has no {role} set. Name another one with --split.")
    finetuned.check_task(task)
    model, preprocessor, problems = finetuned.model, finetuned.preprocessor, Problems()
    columns = columns or finetuned.columns
    inference, rows = Inference(model), list[dict[str, np.ndarray]]()
    splits, predictions = list[Split](), list[Predictions]()
    for name in (role,) if Path(data).is_file() else task.splits[role]:
        examples = read_examples(task, data, name, problems, columns=columns, labels=model.labels)
        split = as_split(task, name, examples, preprocessor, model.labels)
        outputs = by_row(map(inference.of_batch, numpy_batches(split, batch_size)), len(split.features))
        predictions.append(predictions_of(task, split, outputs, model, max_answer_length))
        splits.append(split)
        rows += outputs
    return TaskPredictions(splits, predictions, metrics_with_loss(task, splits, predictions, rows), problems)


def predict_member(
    member: str, task: Task, role: str, data: str | None, flags: SourceFlags
) -> Sequence[Predictions]:
    """The predictions of a member of an ensemble for each of the task's splits.

    Args:
      member: as the source of `read_finetuned`.
      task: the ensemble's.
      role: "dev" or "test".
      data: as for `predict_task`; None for the data that our run was trained with.
      flags: as for `read_finetuned`.

    Raises:
      InputError: as `read_finetuned` and `predict_task`, or the data is not known.
    """
    finetuned = read_finetuned(member, flags, task)
    data = data or finetuned.settings.get(f"{role}_file") or finetuned.settings.get("data_dir")
    if not data:
        raise InputError(
            f"{member} has no predictions for the {role} set yet. Name the task's folder, or a file, with "
            "--data_dir."
        )
    found = predict_task(finetuned, task, str(data), role)
    if len(found.predictions) != len(task.splits[role]):
        raise InputError(
            f"--data_dir must be a folder with {' and '.join(task.splits[role])}. Received {data}, a file."
        )
    return found.predictions
