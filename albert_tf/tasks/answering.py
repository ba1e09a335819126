"""From strings to answers without TensorFlow: what the runtimes of exported files share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta

from albert_tf.tasks.features import Features
from albert_tf.tasks.preprocessor import Preprocessor
from data_prep.files import Number

Count = Annotated[int, Meta(ge=1, le=1 << 20)]
TextAnswer = dict[str, Any]
RunRows = Callable[
    [Sequence[Features]], Sequence[Mapping[str, np.ndarray]]
]  # a file's outputs for each example


class Field(NamedTuple):
    """An array of answers.

    Attributes:
      min_sizes: the smallest sizes of the axes after the first, and those of an empty batch.
      fill: pads answers with smaller axes.
      dtype: of the array.
    """

    min_sizes: tuple[int, ...] = ()
    fill: Any = 0
    dtype: Any = np.float32


@dataclass(frozen=True)
class TaskFacts:
    """What a fine-tuned model is, beside its weights and its vocabulary.

    Attributes:
      task_kind: the name of the kind of task; "" for other models.
      labels: the classes in the model's order.
      thresholds: in multi-label classification, the lowest probability at which a text gets each label.
      answerable: in question answering, whether it may find no answer.
      null_threshold: for SQuAD 2.0, the null odds above which there is no answer.
      lengths: of the preprocessor, in tokens, such as max_seq_length; none without a vocabulary.
      options: those of its export.
      settings: the settings.json of our run, or those of them that name its task and columns; empty for models
        from elsewhere.
    """

    task_kind: str = ""
    labels: tuple[str, ...] = ()
    thresholds: tuple[Number, ...] = ()
    answerable: bool = False
    null_threshold: Number = 0.0
    lengths: Mapping[str, Count] = field(default_factory=dict)
    options: Mapping[str, Count] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


class Answering(ABC):
    """Columns of strings to the answers of a fine-tuned model in a file.

    Args:
      facts: of the model.
      preprocessor: with the model's vocabulary and lengths.

    Attributes:
      columns: their names; `options` has a list of texts for each question.
      pair_columns: of the same model for pairs, if it takes them.
    """

    columns: tuple[str, ...] = ("text",)
    pair_columns: tuple[str, ...] = ()

    def __init__(self, facts: TaskFacts, preprocessor: Preprocessor):
        self.facts, self.preprocessor = facts, preprocessor

    @property
    @abstractmethod
    def fields(self) -> Mapping[str, Field]:
        """The arrays of its answers."""

    @abstractmethod
    def answers(self, columns: list[list], rows: RunRows) -> list[TextAnswer]:
        """The answer to each example, without padding.

        Args:
          columns: strings, checked.
          rows: runs the file.
        """
