"""The list of the kinds of tasks. A kind stands in a folder of its own, and here; nowhere else."""

from albert_tf.tasks.choice.kind import OPTIONS
from albert_tf.tasks.kind import Kind
from albert_tf.tasks.sentences.kind import EMBEDDING
from albert_tf.tasks.spans.kind import SPANS
from albert_tf.tasks.texts.kind import CLASSES, LABEL_SETS, NUMBERS, ORDINALS
from albert_tf.tasks.words.kind import WORDS
from data_prep.errors import InputError

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (CLASSES, ORDINALS, LABEL_SETS, NUMBERS, OPTIONS, SPANS, WORDS, EMBEDDING)
}


def check_order(task: str | None) -> None:
    """Raises InputError unless --label_order is for this --task."""
    ordered = [kind.task_name for kind in KINDS.values() if kind.has_order]
    if task is None or task.lower() not in ordered:
        raise InputError(
            f"--label_order needs --task={' or '.join(ordered)}. Received "
            f"{f'--task={task}' if task else 'no --task'}; leave it out."
        )


def find_kind(name: str) -> Kind:
    """The kind of a name; InputError if there is none."""
    if name not in KINDS:
        raise InputError(f"A kind of task must be one of {', '.join(KINDS)}. Received {name!r}.")
    return KINDS[name]
