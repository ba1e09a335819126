"""`Runner`: arrays in, arrays out, whatever computes them: Keras, TensorFlow, LiteRT, OpenVINO or ONNX Runtime."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.tasks.features import Features
from albert_tf.tasks.splits import USUAL_SIZE, BatchSize, by_row, numpy_batches

Arrays = dict[str, np.ndarray]


class Runner(ABC):
    """Runs a model forward."""

    def __call__(self, arrays: Arrays) -> Arrays:
        """The model's outputs for a batch."""
        (outputs,) = self.outputs([arrays])
        return outputs

    @abstractmethod
    def outputs(self, batches: Iterable[Arrays]) -> Iterator[Arrays]:
        """The outputs for each batch, in order; may take the next batches while it computes earlier ones."""

    def rows(self, features: Sequence[Features], size: BatchSize = USUAL_SIZE) -> list[Arrays]:
        """The model's outputs for each example, which it computes in batches of similar lengths."""
        indices: deque[np.ndarray] = deque()

        def inputs() -> Iterator[Arrays]:
            for batch in numpy_batches(features, size):
                indices.append(batch.pop("index"))
                yield batch

        outputs = ({**found, "index": indices.popleft()} for found in self.outputs(inputs()))
        return by_row(outputs, len(features))


class FunctionRunner(Runner):
    """A function of a batch, one batch after the other."""

    def __init__(self, function: Callable[[Arrays], Mapping[str, Any]]):
        self._function = function

    def outputs(self, batches):
        return map(self._function, batches)
