"""A fine-tuned model in a folder, for `albert predict` and `albert evaluate`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from albert_tf.runtime.engine_flags import EngineSettings
from albert_tf.runtime.portable_folder import PortableFolder
from albert_tf.runtime.portable_loading import load_folder
from albert_tf.runtime.portable_task import task_preprocessor
from albert_tf.runtime.trained_model import USUAL_ANSWER_LENGTH, Batch, TrainedModel
from albert_tf.tasks.kind import Kind
from albert_tf.tasks.kinds import find_kind
from albert_tf.tasks.preprocessor import Preprocessor
from data_prep.errors import InputError


class PortableTaskModel(TrainedModel):
    """A fine-tuned model in a folder, for `albert predict` and `albert evaluate`.

    Args:
      path: the folder.
      settings: how the model runs.

    Raises:
      InputError: as `load_portable`, or the model is not fine-tuned.
    """

    def __init__(self, path: str | Path, settings: EngineSettings):
        self._folder = PortableFolder(path)
        if not self._folder.facts.task_kind:
            raise InputError(
                f"{path} must hold a fine-tuned model. Received one of the kind {self._folder.facts.kind}."
            )
        self._model = load_folder(self._folder, settings)
        self._preprocessor = task_preprocessor(self._folder)
        self.settings = self._folder.facts.settings

    @property
    def source(self) -> str:
        return str(self._folder.path)

    @property
    def kind(self) -> Kind:
        return find_kind(self._folder.facts.task_kind)

    @property
    def labels(self) -> tuple[str, ...]:
        return self._folder.facts.labels

    @property
    def thresholds(self) -> tuple[float, ...]:
        return self._folder.facts.thresholds

    @property
    def answerable(self) -> bool:
        return self._folder.facts.answerable

    @property
    def null_threshold(self) -> float:
        return self._folder.facts.null_threshold

    @property
    def preprocessor(self) -> Preprocessor:
        return self._preprocessor

    @property
    def other_names(self) -> str:
        return "export the model again with --labels, which names them in the order of the outputs"

    @property
    def max_answer_length(self) -> int:
        return int(self._folder.facts.options.get("max_answer_length", USUAL_ANSWER_LENGTH))

    def outputs(self, batches: Iterable[Batch]) -> Iterator[dict[str, np.ndarray]]:
        for found in self._model.outputs(batches):
            yield {**self.kind.task_outputs(found), "index": found["index"]}
