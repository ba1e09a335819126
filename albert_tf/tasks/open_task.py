"""Opens a model with what the user says of it: vocabulary, what its head is for, the names of its classes."""

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from albert_tf.checkpoints.heads import Head, default_names, with_classes
from albert_tf.checkpoints.longer_vocabulary import with_vocabulary
from albert_tf.checkpoints.names import CONDITIONAL_SPAN_HEAD, Use
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.sources import NO_FLAGS, SourceFlags
from albert_tf.checkpoints.stored import StoredModel, check_vocabulary
from albert_tf.tasks.kind import Kind, Task
from albert_tf.tasks.kinds import KINDS, find_kind
from albert_tf.tasks.task import wrong_kind
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary

if TYPE_CHECKING:
    from albert_tf.tasks.task_model import TaskModel

_LONGEST_REASON = 400  # characters; Keras may quote the whole configuration


def read_source(
    source: str | Path, flags: SourceFlags = NO_FLAGS, task: Kind | None = None, *, quantized: bool = False
) -> StoredModel:
    """Reads a model in any format, with what its files leave open.

    Args:
      source: anything that `load_pretrained` reads.
      flags: configuration, vocabulary and the names of the classes.
      task: what the head of a fine-tuned model is for.
      quantized: as for `open_model`.

    Raises:
      InputError: `source` cannot be read, or what is given belongs to another model.
    """
    stored = open_model(source, flags.albert_config_file, quantized=quantized)
    if flags.vocab_file:
        if stored.head and stored.keras_config and stored.vocabulary:
            raise InputError(
                f"--vocab_file is for models without a vocabulary. {source} includes one; leave it out."
            )
        stored = with_vocabulary(stored, Vocabulary.read(flags.vocab_file))
        check_vocabulary(stored)
    if not (task or flags.label_names):
        return stored
    if stored.head is None:
        raise InputError(f"--task and --labels need a fine-tuned model. {source} has no fine-tuned head.")
    head = choose_task(stored.head, task) if task else stored.head
    if flags.label_names:
        head = _with_names(head, flags.label_names)
    return dataclasses.replace(stored, head=head)


def for_task(
    stored: StoredModel, task: Task | Kind | None = None, classes: Collection[type["TaskModel"]] = ()
) -> StoredModel:
    """A fine-tuned model for one kind of task.

    Args:
      stored: as `read_source` returns it.
      task: what the head is for, if the files leave it open. A task with its own classes names those of the
        head, in its own order, if the files do not.
      classes: the task models that are wanted; default: any.

    Raises:
      InputError: it is no fine-tuned model, or one for another task.
    """
    if stored.head is None:
        raise InputError(
            f"{stored.path} must hold a fine-tuned model. Received one without the head of a task; "
            "`albert finetune` trains it."
        )
    kind = task.kind if isinstance(task, Task) else task
    known = kinds_of(stored.head)
    if kind and stored.head.kind and kind not in known:
        raise wrong_kind(kind, stored.path, known[0])
    wanted = [one for one in known if one.model in classes]
    head = choose_task(stored.head, kind or (wanted[0] if len(wanted) == 1 else None))
    if classes and (model := find_kind(head.kind).model) not in classes:
        expected = " or ".join(one.__name__ for one in classes)
        raise InputError(f"{stored.path} must hold a {expected}. Received a {model.__name__}.")
    names = task.labels if isinstance(task, Task) else ()
    if names and head.class_names == default_names(len(names)):
        head = dataclasses.replace(head, labels=names)
    return dataclasses.replace(stored, head=head)


def task_model_of(stored: StoredModel) -> "TaskModel":
    """The Keras model of a fine-tuned model that was read: in the precision of its training, if the file says it.

    Raises:
      InputError: a .keras file describes it wrongly.
    """
    assert stored.head, "`stored` is a fine-tuned model"
    model = find_kind(stored.head.kind).model
    if not stored.keras_config:
        return model.from_finetuned(stored, dtype="float32")
    try:
        return model.from_file(stored)
    except Exception as error:  # a file may describe anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{stored.path} is not a complete fine-tuned model: {reason[:_LONGEST_REASON]}"
        ) from None


def kinds_of(head: Head) -> tuple[Kind, ...]:
    """The kinds of tasks that a head may be for; the first of those with the same head in other libraries.

    Raises:
      InputError: our file names a kind that there is not.
    """
    return (find_kind(head.kind),) if head.kind else tuple(map(first_kind, head.uses))


def first_kind(use: Use) -> Kind:
    """The first kind that other libraries have the same head for."""
    return next(kind for kind in KINDS.values() if kind.use == use)


def choose_task(head: Head, kind: Kind | None) -> Head:
    """The head for one kind of task.

    Args:
      head: as the files describe it.
      kind: None if the files leave only one open.

    Raises:
      InputError: the head is not for this kind, or for several and `kind` is None.
    """
    known = kinds_of(head)
    chosen = [one for one in known if kind in (None, one)]
    if kind and kind.use and any(one is first_kind(kind.use) for one in known if one.use):
        chosen = [kind]  # it has the head of another kind
    if len(chosen) != 1:
        names = " or ".join(one.task_name for one in known)
        received = kind.task_name if kind else "no --task"
        raise InputError(f"--task must name what the head is for, {names}. Received {received}.")
    return with_kind(head, chosen[0])


def with_kind(head: Head, kind: Kind) -> Head:
    """The head as that of a model of a kind, which other libraries have for its use."""
    return dataclasses.replace(head, kind=kind.name, uses=(kind.use,) if kind.use else ())


def head_in_card(head: Head) -> dict[str, str]:
    """What a README.md says of a head, arguments of `Usage`."""
    kinds = kinds_of(head)
    answers = " with unanswerable questions" if head.size.part == CONDITIONAL_SPAN_HEAD else ""
    classes = f" ({head.size.outputs} classes)" if kinds[0].has_classes else ""
    words = " or ".join(kind.words for kind in kinds)
    return {"head": f"{words}{answers}{classes}", "pipeline": kinds[0].pipeline}


def _with_names(head: Head, labels: Sequence[str]) -> Head:
    """The head with other names for its classes, in the order of its outputs.

    Raises:
      InputError: it has no classes, or another number of them.
    """
    kind = kinds_of(head)[0]
    if not kind.has_classes:
        raise InputError(f"--labels needs a model with classes. Received one for {kind.words}.")
    return with_classes(dataclasses.replace(head, labels=()), labels)
