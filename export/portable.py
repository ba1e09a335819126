"""Models as functions that runtimes other than TensorFlow can hold: ids in, for they have no tokenizer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from albert_tf.finetuning.task_models import TextClassifier, TextRegressor
from albert_tf.model.pretrainer import AlbertPretrainer
from export.savedmodel import TEXT_INPUTS

POSITIONS = "masked_lm_positions"
_OURS = ("input_ids", "input_mask", "token_type_ids")

# From arrays under the names of TEXT_INPUTS, int32 (B, T), and perhaps POSITIONS, int32 (B, P), to outputs.
Runner = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Portable:
    """A model without dropout.

    Attributes:
      model: has the variables.
      functions: signature -> a tf.function of a dict of int32 arrays; the last one takes all that any of them
        takes, and gives all that any gives.
      outputs: their names, with the dimensions.
    """

    model: keras.Model
    functions: dict[str, tf.types.experimental.PolymorphicFunction]
    outputs: dict[str, str]

    @property
    def whole(self) -> tf.types.experimental.PolymorphicFunction:
        """The last function."""
        return list(self.functions.values())[-1]

    @property
    def inputs(self) -> tuple[str, ...]:
        """What it takes."""
        return tuple(self.whole.input_signature[0])

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs it, as a `Runner` does."""
        return {name: array.numpy() for name, array in self.whole(inputs).items()}


def portable_encoder(model: AlbertPretrainer, parts: Sequence[str]) -> Portable:
    """The encoder with its heads: `serving_default`, and with a masked-LM head `mlm`, which takes POSITIONS too.

    They return `sequence_output` (B, T, H); `pooled_output` (B, H) and `sop_logits` (B, 2) where they are
    trained; and `mlm` also `mlm_logits` (B, P, V).

    Args:
      model: with its heads.
      parts: which of "pooler", "masked_lm" and "sentence_order" are trained. P may be 0.
    """

    def encode(inputs):
        outputs = model.encoder(_to_ours(inputs))
        arrays = {"sequence_output": outputs["sequence_output"]}
        if "pooler" in parts:
            arrays["pooled_output"] = outputs["pooled_output"]
            if "sentence_order" in parts:
                arrays["sop_logits"] = model.sentence_order(outputs["pooled_output"])
        if POSITIONS in inputs:
            table = model.encoder.embeddings.word_embeddings
            arrays["mlm_logits"] = model.masked_lm(outputs["sequence_output"], inputs[POSITIONS], table)
        return arrays

    outputs = {"sequence_output": "B, T, H"}
    if "pooler" in parts:
        outputs["pooled_output"] = "B, H"
        if "sentence_order" in parts:
            outputs["sop_logits"] = "B, 2"
    functions = {"serving_default": _function(encode, masked=False)}
    if "masked_lm" in parts:
        functions["mlm"] = _function(encode, masked=True)
        outputs["mlm_logits"] = "B, P, V"
    return Portable(model, functions, outputs)


def portable_classifier(model: TextClassifier | TextRegressor) -> Portable:
    """A fine-tuned model: `probabilities` and `logits` (B, C) of the classes, or a number, `score` (B,)."""

    def classify(inputs):
        outputs = model(_to_ours(inputs), training=False)
        if isinstance(model, TextRegressor):
            return {"score": outputs}
        return {"probabilities": tf.nn.softmax(outputs), "logits": outputs}

    outputs = (
        {"score": "B"}
        if isinstance(model, TextRegressor)
        else dict.fromkeys(("probabilities", "logits"), "B, C")
    )
    return Portable(model, {"serving_default": _function(classify, masked=False)}, outputs)


def _function(function: Callable, *, masked: bool) -> tf.types.experimental.PolymorphicFunction:
    return tf.function(function, input_signature=[input_specs(masked=masked)], autograph=False)


def _to_ours(inputs: dict) -> dict:
    return {ours: inputs[theirs] for ours, theirs in zip(_OURS, TEXT_INPUTS, strict=True)}


def input_specs(*, masked: bool) -> dict[str, tf.TensorSpec]:
    """Of the function's inputs, any batch size and length."""
    names = (*TEXT_INPUTS, POSITIONS) if masked else TEXT_INPUTS
    return {name: tf.TensorSpec((None, None), tf.int32, name=name) for name in names}


def to_hub_names(batch: dict) -> dict[str, np.ndarray]:
    """A batch under this library's names, under those of TEXT_INPUTS; positions only where it has them."""
    names = zip((*_OURS, POSITIONS), (*TEXT_INPUTS, POSITIONS), strict=True)
    return {theirs: np.asarray(batch[name], np.int32) for name, theirs in names if name in batch}
