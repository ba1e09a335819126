"""Models as functions for runtimes other than TensorFlow, which have no tokenizer: they take ids."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from albert_tf.conversion.verification import random_inputs
from albert_tf.finetuning.task_models import TextClassifier, TextRegressor
from albert_tf.pretrained.card import markdown_table
from albert_tf.pretrained.loading import Pretrained
from data_prep.errors import InputError
from export.encoder import TEXT_INPUTS

POSITIONS = "masked_lm_positions"
_OURS = ("input_ids", "input_mask", "token_type_ids")

# Takes arrays named as in TEXT_INPUTS, int32 (B, T), and optionally POSITIONS, int32 (B, P); returns the outputs.
Runner = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Portable:
    """A model without dropout.

    Attributes:
      model: has the variables.
      functions: signature -> a tf.function that takes a dict of int32 arrays; the last one has all inputs and
        outputs of the others.
      outputs: name -> dimensions.
    """

    model: keras.Model
    functions: dict[str, tf.types.experimental.PolymorphicFunction]
    outputs: dict[str, str]

    @property
    def whole(self) -> tf.types.experimental.PolymorphicFunction:
        """The function with all inputs and outputs."""
        return list(self.functions.values())[-1]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of all inputs."""
        return tuple(self.whole.input_signature[0])

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs the function, as a `Runner` does."""
        return {name: array.numpy() for name, array in self.whole(inputs).items()}

    def random_inputs(self) -> dict[str, np.ndarray]:
        """A random batch of all inputs."""
        batch = to_hub_names(random_inputs(self.model.encoder.config, seed=0))
        return {name: batch[name] for name in self.inputs}

    @property
    def section(self) -> str:
        """A section of README.md on the inputs and outputs."""
        inputs = "`input_word_ids`, `input_mask`, `input_type_ids` int32 (B, T)"
        if POSITIONS in self.inputs:
            inputs += f"; for `mlm_logits` also `{POSITIONS}` int32 (B, P)"
        rows = [(f"`{name}`", f"float32 ({shape})") for name, shape in self.outputs.items()]
        return f"## Inputs and outputs\n\nInputs: {inputs}.\n\n{markdown_table(('output', 'type'), rows)}"


class Runtime(NamedTuple):
    """A runtime other than TensorFlow.

    Attributes:
      name: its name in messages.
      file: the name of the file that it runs.
      example: Python that prints the shape of `sequence_output`.
      packages: modules that writing and running need.
      extra: the extra of this package that installs them, which is also the value of --format.
      write: writes the file into a folder and returns its runner. Takes the model; how to quantize it: "none",
        "float16" for weights stored in float16 and used in float32, or "int8" for weights and, in each product,
        activations; and the folder.
    """

    name: str
    file: str
    example: str
    packages: tuple[str, ...]
    extra: str
    write: Callable[[Portable, str, Path], Runner]

    def check_installed(self) -> None:
        """Raises InputError if a package is missing."""
        missing = [name.replace("_", "-") for name in self.packages if importlib.util.find_spec(name) is None]
        if missing:
            raise InputError(
                f"--format={self.extra} needs {' and '.join(missing)}. Install with "
                f"`pip install 'albert-tf[{self.extra}]'`."
            )


def portable_encoder(pretrained: Pretrained) -> Portable:
    """The encoder with its heads: `serving_default`, and with a masked-LM head `mlm`, which also takes POSITIONS.

    Both return `sequence_output` (B, T, H), and `pooled_output` (B, H) and `sop_logits` (B, 2) if the source holds
    these parts; `mlm` also returns `mlm_logits` (B, P, V). P may be 0.
    """
    model, parts = pretrained.model, pretrained.parts

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
    """A fine-tuned model, which returns `probabilities` and `logits` (B, C) of the classes, or `score` (B,)."""

    def classify(inputs):
        outputs = model(_to_ours(inputs), training=False)
        if isinstance(model, TextRegressor):
            return {"score": outputs}
        return {"probabilities": tf.nn.softmax(outputs), "logits": outputs}

    is_regressor = isinstance(model, TextRegressor)
    outputs = {"score": "B"} if is_regressor else dict.fromkeys(("probabilities", "logits"), "B, C")
    return Portable(model, {"serving_default": _function(classify, masked=False)}, outputs)


def _function(function: Callable, *, masked: bool) -> tf.types.experimental.PolymorphicFunction:
    return tf.function(function, input_signature=[_input_specs(masked=masked)], autograph=False)


def _to_ours(inputs: dict) -> dict:
    return {ours: inputs[theirs] for ours, theirs in zip(_OURS, TEXT_INPUTS, strict=True)}


def _input_specs(*, masked: bool) -> dict[str, tf.TensorSpec]:
    """Inputs of any batch size and length."""
    names = (*TEXT_INPUTS, POSITIONS) if masked else TEXT_INPUTS
    return {name: tf.TensorSpec((None, None), tf.int32, name=name) for name in names}


def to_hub_names(batch: dict) -> dict[str, np.ndarray]:
    """A batch with this library's names renamed to those of TEXT_INPUTS; positions are optional."""
    names = zip((*_OURS, POSITIONS), (*TEXT_INPUTS, POSITIONS), strict=True)
    return {theirs: np.asarray(batch[name], np.int32) for name, theirs in names if name in batch}
