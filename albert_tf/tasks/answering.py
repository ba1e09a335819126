"""From strings to answers without TensorFlow: what the runtimes of exported files share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from albert_tf.tasks.features import Features
from albert_tf.tasks.preprocessor import Preprocessor

Arrays = dict[str, np.ndarray]
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


class Facts(Protocol):
    """What a file's folder says of a fine-tuned model."""

    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def thresholds(self) -> tuple[float, ...]: ...
    @property
    def answerable(self) -> bool: ...
    @property
    def null_threshold(self) -> float: ...
    @property
    def options(self) -> Mapping[str, int]: ...


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

    def __init__(self, facts: Facts, preprocessor: Preprocessor):
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
