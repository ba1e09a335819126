"""The head of a fine-tuned model as files hold it."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from albert_tf.checkpoints.names import (
    CONDITIONAL_SPAN_HEAD,
    HEADS,
    SEQUENCE_HEAD,
    TOKEN_HEAD,
    HeadPart,
    HeadSize,
    Naming,
    Parameter,
    Use,
    parameters,
)
from albert_tf.checkpoints.weights import rename, to_ours
from albert_tf.config import AlbertConfig
from data_prep.errors import InputError

# In a task model, the layer on [token, start] is two layers: one for the token, with the bias, one for the start.
_TOKEN_HALF, _START_HALF = "end_token/vars/0", "end_start/vars/0"
_ANSWERABLE = "answerable_output/vars/0"  # the model predicts "answerable", the original "impossible"


@dataclass(frozen=True)
class Head:
    """The head of a fine-tuned model.

    Attributes:
      size: which one it is, and the number of its outputs, C.
      uses: what it may be for in other libraries; several if the files leave it open, none in our own files.
      weights: float32 arrays under our names.
      labels: the C names of the classes; () if there are none, or the files do not hold them.
      dropout: dropout rate before the last layer; None if the files do not hold it.
      thresholds: in multi-label classification, the lowest probability at which a text gets each label; () for
        none.
      lengths: in tokens, the arguments of the task's preprocessor, so that texts are cut as in training; empty if
        the files do not hold them.
      kind: the kind of task, as our own files name it; "" in others, until `albert_tf.tasks.kinds` chooses one.
    """

    size: HeadSize
    uses: tuple[Use, ...]
    weights: dict[str, np.ndarray] = field(repr=False)
    labels: tuple[str, ...] = ()
    dropout: float | None = None
    thresholds: tuple[float, ...] = ()
    lengths: Mapping[str, int] = field(default_factory=dict)
    kind: str = ""

    def __post_init__(self):
        if self.labels and len(self.labels) != self.size.outputs:
            raise InputError(
                f"A head must have one output for each class. Received {self.size.outputs} outputs and "
                f"{len(self.labels)} classes: {', '.join(self.labels)}."
            )
        if self.thresholds and len(self.thresholds) != self.size.outputs:
            raise InputError(
                f"A head must have one threshold for each class. Received {len(self.thresholds)} thresholds and "
                f"{self.size.outputs} outputs."
            )
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise InputError(
                f"The dropout rate of a head must be at least 0 and below 1. Received {self.dropout}."
            )

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes; LABEL_0 and so on, as in Hugging Face, if the files do not hold them."""
        return self.labels or default_names(self.size.outputs)

    @property
    def what(self) -> str:
        """What the head is for, in words."""
        return name_of_kind(self.kind)


def name_of_kind(kind: str) -> str:
    """The name of a kind of task in words.

    >>> name_of_kind("multi_label_ranking")
    'multi-label ranking'
    """
    return kind.replace("_label", "-label").replace("_", " ")


def head_size(
    part: HeadPart, arrays: Mapping[str, np.ndarray], config: AlbertConfig, naming: Naming
) -> HeadSize:
    """The size of a head, from the bias of its layer if the number of outputs is open."""
    if part not in (SEQUENCE_HEAD, TOKEN_HEAD):
        return HeadSize(part, 0)
    bias = parameters(config, naming, HeadSize(part, 1))[-1].theirs
    return HeadSize(part, arrays[bias].size if bias in arrays else 1)


def read_weights(
    arrays: dict[str, np.ndarray], config: AlbertConfig, naming: Naming, where: str, size: HeadSize | None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The weights of a file without its head, and those of the head; arguments and errors as for `to_ours`."""
    weights = to_ours(arrays, config, naming, where, size)
    head = {name: weights.pop(name) for name in list(weights) if name.split("/")[0] in HEADS}
    return weights, head


def from_task_model(
    arrays: Mapping[str, np.ndarray], config: AlbertConfig, part: HeadPart, where: str
) -> tuple[HeadSize, dict[str, np.ndarray]]:
    """The size and the weights of a head from the arrays of a task model's file.

    Args:
      arrays: of the head, under their names inside its layer.
      config: the encoder's shape.
      part: one of `HEADS`.
      where: the file, for messages.

    Raises:
      InputError: arrays are missing or have wrong shapes.
    """
    found = dict(arrays)
    if part == CONDITIONAL_SPAN_HEAD and {_TOKEN_HALF, _START_HALF, _ANSWERABLE} <= found.keys():
        found[_TOKEN_HALF] = np.concatenate([found[_TOKEN_HALF], found.pop(_START_HALF)])
        found[_ANSWERABLE] = -found[_ANSWERABLE]
    size = HeadSize(part, 0)
    if part in (SEQUENCE_HEAD, TOKEN_HEAD):
        size = HeadSize(part, next((array.shape[-1] for array in found.values() if array.ndim), 1))
    return size, rename(found, _rows(config, size), where)


def default_names(number: int) -> tuple[str, ...]:
    """Hugging Face's names of classes without names."""
    return tuple(f"LABEL_{i}" for i in range(number))


def with_classes(head: Head, labels: Sequence[str]) -> Head:
    """The head with its classes in the order of `labels`; if they have no names, they get these.

    Hugging Face's LABEL_0, LABEL_1 and so on count as none.

    Raises:
      InputError: the number of names or the names differ from the head's classes, which needs a new head.
    """
    if len(labels) != head.size.outputs:
        raise InputError(
            f"There must be a name for each class of the head, {head.size.outputs}. Received "
            f"{', '.join(labels)}; other classes need a new head (in Python, `new_head=True`)."
        )
    weights, thresholds = head.weights, head.thresholds
    if set(labels) == set(head.labels) and len(set(labels)) == len(labels):
        order = [head.labels.index(label) for label in labels]
        weights = {name: array[..., order] for name, array in weights.items()}
        thresholds = tuple(thresholds[place] for place in order) if thresholds else ()
    elif head.labels not in ((), default_names(head.size.outputs)):
        raise InputError(
            f"The head's classes are {', '.join(head.labels)}. Received {', '.join(labels)}: give the same names, "
            "in any order, or start with a new head (in Python, `new_head=True`)."
        )
    return dataclasses.replace(head, weights=weights, labels=tuple(labels), thresholds=thresholds)


def to_task_model(head: Head, config: AlbertConfig) -> dict[str, np.ndarray]:
    """The reverse of `from_task_model`: the arrays under their names inside the head's layer."""
    arrays = {row.theirs: head.weights[row.ours] for row in _rows(config, head.size)}
    if head.size.part == CONDITIONAL_SPAN_HEAD:
        arrays[_TOKEN_HALF], arrays[_START_HALF] = np.split(arrays[_TOKEN_HALF], 2)
        arrays[_ANSWERABLE] = -arrays[_ANSWERABLE]
    return arrays


def _rows(config: AlbertConfig, size: HeadSize) -> list[Parameter]:
    return [row for row in parameters(config, "keras", size) if row.part == size.part]
