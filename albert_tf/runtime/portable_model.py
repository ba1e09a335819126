"""Portable models: a folder's model on an engine; and the encoder, which takes ids.

Each kind gives the answers of its SavedModel, without TensorFlow.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from albert_tf.runtime.engines import Arrays, Engine
from albert_tf.runtime.portable_folder import ONNX_FILE, PortableFolder
from albert_tf.runtime.portable_inputs import checked_ids
from albert_tf.tasks.features import Features
from albert_tf.tasks.finite import check_finite
from albert_tf.tasks.hub_names import MASKED_POSITIONS, TEXT_INPUTS, to_hub_names
from albert_tf.tasks.runner import Runner
from albert_tf.tasks.splits import USUAL_SIZE, BatchSize
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Tokenizer

_INTEGERS = ("ids", "start_top_index", "end_top_index")  # the outputs that are


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
          InputError: it is not the model that the folder's other files describe: an input or output is missing, or
            an output has another type or shape.
        """
        facts, config, inputs = self.folder.facts, self.folder.config, self.engine.inputs
        has_positions = MASKED_POSITIONS in inputs if facts.kind == "encoder" else facts.kind == "fill-mask"
        expected = (*TEXT_INPUTS, *([MASKED_POSITIONS] if has_positions else []))
        if set(inputs) != set(expected):
            raise self._other_model(f"the inputs {', '.join(sorted(expected))}", ", ".join(inputs))
        V, T, P = config.vocab_size, min(8, config.max_position_embeddings), 1
        ids = np.arange(V - T, V).clip(0)[np.newaxis]
        if (kind := self.folder.task_kind) and kind.input_rank == 3:
            ids = np.stack([ids, ids], axis=1)
        arrays = dict(zip(TEXT_INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
        arrays[MASKED_POSITIONS] = np.zeros((1, P), int)
        found = self.engine({name: arrays[name].astype(np.int32) for name in expected})
        shapes = self.folder.outputs
        needed = shapes.keys() - (
            {"pooled_output", "sop_logits"} | (set() if has_positions else {"mlm_logits"})
        )
        if not needed <= set(found) <= set(shapes):
            raise self._other_model(f"the outputs {', '.join(shapes)}", ", ".join(found))
        K = facts.options.get("top_k") or np.shape(found.get("start_top_index", [[]]))[-1]
        sizes = {"B": 1, "T": T, "P": P, "H": config.hidden_size, "V": V, "K": K, "K*K": K * K}
        sizes["D"] = facts.options.get("vector_size", 0)
        sizes["C"] = len(facts.labels) if ids.ndim == 2 else ids.shape[1]
        for name, array in found.items():
            shape = tuple(sizes[size] if size in sizes else int(size) for size in shapes[name].split(", "))
            dtype = "int32" if name in _INTEGERS else "float32"
            if array.shape != shape or array.dtype.kind != dtype[0]:
                raise self._other_model(f"`{name}` as {dtype} {shape}", f"{array.dtype} {array.shape}")
        check_finite("Outputs", found.values())

    def _other_model(self, wanted: str, received: str) -> InputError:
        return InputError(
            f"{self.folder.path / ONNX_FILE} must be the model that the other files of its folder describe, with "
            f"{wanted}. Received {received or 'none'}; export the model again."
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
