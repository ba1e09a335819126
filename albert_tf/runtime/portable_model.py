"""Portable models: a folder's model on an engine; and the encoder, which takes ids.

Each kind gives the answers of its SavedModel, without TensorFlow.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from albert_tf.runtime.engines import Arrays, Engine
from albert_tf.runtime.portable_folder import PortableFolder
from albert_tf.runtime.portable_inputs import checked_ids
from albert_tf.runtime.portable_outputs import check_model
from albert_tf.tasks.features import Features
from albert_tf.tasks.finite import check_finite
from albert_tf.tasks.hub_names import MASKED_POSITIONS, TEXT_INPUTS, to_hub_names
from albert_tf.tasks.runner import Runner
from albert_tf.tasks.splits import USUAL_SIZE, BatchSize
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Tokenizer


class PortableModel:
    """A model in a folder, on an engine.

    Args:
      folder: the model's files, also an attribute.
      engine: runs the model, also an attribute.
      size: size of the engine's batches.
    """

    def __init__(self, folder: PortableFolder, engine: Engine, size: BatchSize = USUAL_SIZE):
        self.folder, self.engine, self.size = folder, engine, size

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; raises InputError if the folder holds no vocabulary."""
        return self.folder.vocabulary.tokenizer()

    @property
    def runner(self) -> Runner:
        """From the arrays of task models to the engine's outputs."""
        return _FileRunner(self)

    def rows(self, features: Sequence[Features]) -> list[Arrays]:
        """The engine's outputs for each example."""
        return self.runner.rows(features, self.size)

    def engine_inputs(self, batch: Arrays) -> Arrays:
        """The inputs of the engine for a batch."""
        return to_hub_names(batch)

    def try_out(self) -> None:
        """Runs the model once, on a few tokens.

        Raises:
          InputError: it is not the model that the folder's other files describe.
        """
        V, T = self.folder.config.vocab_size, min(8, self.folder.config.max_position_embeddings)
        ids = np.arange(V - T, V).clip(0)[np.newaxis]
        if (kind := self.folder.task_kind) and kind.input_rank == 3:
            ids = np.stack([ids, ids], axis=1)
        arrays = {MASKED_POSITIONS: np.zeros((1, 1), int)} if MASKED_POSITIONS in self.engine.inputs else {}
        arrays |= dict(zip(TEXT_INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
        check_model(
            self.folder, self.engine, {name: array.astype(np.int32) for name, array in arrays.items()}
        )


class _FileRunner(Runner):
    """A portable model as a `Runner`; its outputs are finite."""

    def __init__(self, model: PortableModel):
        self._model = model

    def outputs(self, batches):
        for found in self._model.engine.outputs(map(self._model.engine_inputs, batches)):
            check_finite("Outputs", found.values())
            yield found


class PortableEncoder(PortableModel):
    """Ids to vectors and logits, as the SavedModel of the encoder."""

    def __call__(self, inputs: Mapping) -> Arrays:
        """The encoder's outputs.

        Args:
          inputs: `input_word_ids`, `input_mask` and `input_type_ids`, integers (B, T), and for `mlm_logits`
            `masked_lm_positions` (B, P).

        Raises:
          InputError: the inputs do not fit each other or the model.
        """
        arrays = checked_ids(inputs, self.folder.config)
        has_positions = MASKED_POSITIONS in arrays
        if has_positions and MASKED_POSITIONS not in self.engine.inputs:
            raise InputError(
                f"{MASKED_POSITIONS} needs a masked-LM head, which {self.folder.path} does not hold."
            )
        if not has_positions and MASKED_POSITIONS in self.engine.inputs:
            arrays[MASKED_POSITIONS] = np.zeros((len(arrays["input_mask"]), 0), np.int32)
        outputs = self.engine(arrays)
        check_finite("Outputs", outputs.values())
        if not has_positions:
            outputs.pop("mlm_logits", None)
        return outputs
