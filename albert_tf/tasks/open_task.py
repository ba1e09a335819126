"""Opens a model with what the user says of it: vocabulary, what its head is for, the names of its classes."""

import dataclasses
from pathlib import Path

from albert_tf.checkpoints.heads import Head, rename_classes
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.sources import NO_FLAGS, SourceFlags
from albert_tf.checkpoints.stored import StoredModel, check_vocabulary
from albert_tf.tasks.task import TaskKind, find_task
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary

_ORDINAL = "ordinal_classification"  # other formats hold it as a classifier


def read_source(
    source: str | Path, flags: SourceFlags = NO_FLAGS, task: TaskKind | None = None
) -> StoredModel:
    """Reads a model in any format, with what its files leave open.

    Args:
      source: anything that `load_pretrained` reads.
      flags: configuration, vocabulary and the names of the classes.
      task: what the head of a fine-tuned model is for.

    Raises:
      InputError: `source` cannot be read, or what is given belongs to another model.
    """
    stored = open_model(source, flags.albert_config_file)
    if flags.vocab_file:
        stored = dataclasses.replace(stored, vocabulary=Vocabulary.read(flags.vocab_file))
        check_vocabulary(stored)
    if not (task or flags.label_names):
        return stored
    if stored.head is None:
        raise InputError(f"--task and --labels need a fine-tuned model. {source} has no fine-tuned head.")
    head = choose_task(stored.head, task) if task else stored.head
    if flags.label_names:
        head = rename_classes(head, flags.label_names)
    return dataclasses.replace(stored, head=head)


def choose_task(head: Head, task: str | None) -> Head:
    """The head for one kind of task.

    Args:
      head: as the files describe it.
      task: the kind, or the name of a task of this kind; None if the files leave only one open.

    Raises:
      InputError: the head is not for this kind, or for several and `task` is None.
    """
    kinds = head.kinds
    wanted = find_task(task).kind if task else None
    if "classification" in kinds and wanted == _ORDINAL:
        kinds = (_ORDINAL,)
    chosen = tuple(kind for kind in kinds if wanted in (None, kind))
    if len(chosen) != 1:
        names = " or ".join(find_task(kind).name for kind in head.kinds)
        raise InputError(f"--task must name what the head is for, {names}. Received {task or 'no --task'}.")
    return dataclasses.replace(head, kinds=chosen)
