"""The model to export, read from any format for the kind of its export."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import keras

from albert_tf.checkpoints.open_model import named_files
from albert_tf.checkpoints.sources import SourceFlags
from albert_tf.checkpoints.stored import StoredModel, no_vocabulary
from albert_tf.runtime.finetuned import Finetuned, as_finetuned
from albert_tf.runtime.pretrained import Pretrained, as_pretrained
from albert_tf.tasks.open_task import for_task, kinds_of, read_source
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
      InputError: as `read_source`, `for_task`, `kind_for` and `check_options`.
    """
    if kind:
        check_options(kind, options)
    with named_files(source) as path:
        stored = read_source(path, flags, quantized=kind is None or bool(export_kinds()[kind].task_models))
        if kind is None:
            kind = kind_for(kinds_of(stored.head) if stored.head else ())
            check_options(kind, options)
        if not (task_models := export_kinds()[kind].task_models):
            return ExportSource(source, kind, stored, lambda: as_pretrained(stored, seed=0))
        stored = for_task(stored, classes=task_models)
        found = as_finetuned(stored)
        stored = replace(stored, notes=(*stored.notes, _describe(found.model)))
        return ExportSource(source, kind, stored, lambda: _with_current_dtype(found.model), found)


def _describe(model: TaskModel) -> str:
    """A note for README.md."""
    labels = f", labels {', '.join(model.labels)}" if model.labels else ""
    thresholds = f", thresholds {', '.join(map('{:g}'.format, model.thresholds))}" if model.thresholds else ""
    return f"fine-tuned: {type(model).__name__}{labels}{thresholds}"


def _with_current_dtype(model: TaskModel) -> TaskModel:
    """A copy of a model in the precision that Keras is set to, in place of the precision of its training."""
    dtype = keras.dtype_policies.serialize(keras.config.dtype_policy())
    config = model.get_config()
    encoder = {**config["encoder"], "dtype": dtype}
    copy = type(model).from_config({**config, "encoder": encoder, "dtype": dtype})
    copy.set_weights(model.get_weights())
    return copy
