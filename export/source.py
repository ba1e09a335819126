"""The model to export, read from any format for the kind of its export."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import keras

from albert_tf.checkpoints.keras_models import describe, find_model_file
from albert_tf.checkpoints.open_model import named_files
from albert_tf.checkpoints.sources import SourceFlags
from albert_tf.checkpoints.stored import StoredModel, no_vocabulary
from albert_tf.runtime.finetuned import Finetuned, finetuned_of, read_finetuned
from albert_tf.runtime.pretrained import Pretrained, as_pretrained
from albert_tf.tasks.kinds import find_kind
from albert_tf.tasks.open_task import kinds_of, read_source
from albert_tf.tasks.task_model import TaskModel
from data_prep.tokenizers.vocabulary import Vocabulary
from export.kinds import check_options, export_kinds, kind_for


@dataclass(frozen=True)
class ExportSource:
    """A model to export.

    Attributes:
      path: the model as the user named it.
      kind: what is exported.
      stored: the model as it was read, for README.md.
      build_model: builds it in the precision that Keras is set to.
      finetuned: the fine-tuned model; None for a pretrained one.
    """

    path: str | Path
    kind: str
    stored: StoredModel
    build_model: Callable[[], Pretrained | TaskModel]
    finetuned: Finetuned | None = None

    def need_vocabulary(self) -> Vocabulary:
        """The vocabulary.

        Raises:
          InputError: the model's files hold none.
        """
        if self.stored.vocabulary is None:
            raise no_vocabulary(self.path)
        return self.stored.vocabulary


def read_export_source(
    source: str | Path, kind: str | None, flags: SourceFlags, options: dict
) -> ExportSource:
    """Reads what a kind exports; without a kind, all that the source has.

    Raises:
      InputError: as `read_source`, `read_finetuned`, `kind_for` and `check_options`.
    """
    stored = None
    if kind is None and (task_kind := _task_kind(source)):
        kind = kind_for((find_kind(task_kind),))
    elif kind is None:
        stored = read_source(source, flags)
        kind = kind_for(kinds_of(stored.head) if stored.head else ())
    check_options(kind, options)
    if task_models := export_kinds()[kind].task_models:
        if stored:
            found = finetuned_of(stored, flags, task_models)
        else:
            found = read_finetuned(source, flags, classes=task_models)
        return ExportSource(source, kind, found.stored, lambda: _with_current_dtype(found.model), found)
    pretrained = stored or read_source(source, flags)
    return ExportSource(source, kind, pretrained, lambda: as_pretrained(pretrained, seed=0))


def _task_kind(source: str | Path) -> str | None:
    """The kind of task of a fine-tuned model of ours, without reading its weights; None for any other model."""
    with named_files(source) as path:
        file = find_model_file(path)
        task = describe(file).task if file else None
        return task.kind if task else None


def _with_current_dtype(model: TaskModel) -> TaskModel:
    """A copy of a model in the precision that Keras is set to, in place of the precision of its training."""
    dtype = keras.dtype_policies.serialize(keras.config.dtype_policy())
    config = model.get_config()
    encoder = {**config["encoder"], "dtype": dtype}
    copy = type(model).from_config({**config, "encoder": encoder, "dtype": dtype})
    copy.set_weights(model.get_weights())
    return copy
