"""Models as functions for runtimes other than TensorFlow, which have no tokenizer: they take ids."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.card import markdown_table
from albert_tf.conversion.verification import TOLERANCE, OutputComparison, compare_outputs
from albert_tf.tasks.hub_names import MASKED_POSITIONS
from albert_tf.tasks.runner import Runner
from albert_tf.tasks.served import MASKED_LOGIT
from data_prep.errors import InputError


@dataclass(frozen=True)
class Portable(Runner):
    """A model without dropout, which takes arrays named as in TEXT_INPUTS, and optionally MASKED_POSITIONS.

    Attributes:
      model: the model with the variables.
      functions: signature -> a tf.function that takes a dict of int32 arrays; the last one has all inputs and
        outputs of the others.
      output_dimensions: those of each output, by its name; arrays of tokens are int32, all others float32.
      sample: a batch of all inputs, for comparisons.
      options: the options of the kind, which a loader needs.
      dimensions: the dimensions of all inputs but MASKED_POSITIONS.
      example_ids, example_types: Python for `input_word_ids` and `input_type_ids` of an example.
    """

    model: keras.Model
    functions: dict[str, tf.types.experimental.PolymorphicFunction]
    output_dimensions: dict[str, str]
    sample: dict[str, np.ndarray]
    options: Mapping[str, int | str] = field(default_factory=dict)
    dimensions: str = "B, T"
    example_ids: str = "[[2, 13, 1, 9, 3]]"
    example_types: str = "np.zeros_like(ids)"

    @property
    def whole(self) -> tf.types.experimental.PolymorphicFunction:
        """The function with all inputs and outputs."""
        return list(self.functions.values())[-1]

    @property
    def all_dimensions(self) -> dict[str, str]:
        """The dimensions of each input and output, by its name."""
        return {
            **dict.fromkeys(self.sample, self.dimensions),
            MASKED_POSITIONS: "B, P",
            **self.output_dimensions,
        }

    def outputs(self, batches):
        for inputs in batches:
            yield {name: array.numpy() for name, array in self.whole(inputs).items()}

    def compare(self, run: Runner, run_by: str, *, rounded: bool) -> OutputComparison:
        """Compares the outputs for the sample with those of a file; masked logits count as 0.

        Args:
          run: runs the file.
          run_by: the runtime's name.
          rounded: whether the file stores fewer bits on purpose: then the best tokens may be others, and only
            their scores are compared.
        """
        ours, theirs = (
            {name: np.where(array <= MASKED_LOGIT, 0, array) for name, array in outputs.items()}
            for outputs in (self(self.sample), run(self.sample))
        )
        if rounded:
            ours = {name: array for name, array in ours.items() if array.dtype.kind == "f"}
        elif "ids" in ours:
            tied = _tied(ours["probabilities"])
            ours["ids"], theirs["ids"] = (np.where(tied, 0, outputs["ids"]) for outputs in (ours, theirs))
        return compare_outputs(ours, theirs, "albert_tf", run_by)

    def example(self, template: str) -> str:
        """The runtime's example for this model."""
        return template.format(
            ids=self.example_ids, types=self.example_types, output=next(iter(self.output_dimensions))
        )

    @property
    def section(self) -> str:
        """A section of README.md on the inputs and outputs."""
        inputs = f"`input_word_ids`, `input_mask`, `input_type_ids` int32 ({self.dimensions})"
        if MASKED_POSITIONS in self.sample:
            needed = "for `mlm_logits` also" if "mlm_logits" in self.output_dimensions else "and"
            inputs += f"; {needed} `{MASKED_POSITIONS}` int32 (B, P)"
        rows = [
            (f"`{name}`", f"{'int32' if name == 'ids' or name.endswith('_index') else 'float32'} ({shape})")
            for name, shape in self.output_dimensions.items()
        ]
        return f"## Inputs and outputs\n\nInputs: {inputs}.\n\n{markdown_table(('output', 'type'), rows)}"


def _tied(probabilities: np.ndarray) -> np.ndarray:
    """Which of the best probabilities (..., K), in descending order, rounding may swap with a neighbour.

    The last one may also swap with the best one that is not among the K.
    """
    near = probabilities[..., :-1] - probabilities[..., 1:] <= TOLERANCE * probabilities[..., :-1]
    first = np.zeros((*probabilities.shape[:-1], 1), bool)
    last = first | (probabilities.shape[-1] > 1)
    return np.concatenate([near, last], axis=-1) | np.concatenate([first, near], axis=-1)


class Runtime(NamedTuple):
    """A runtime other than TensorFlow.

    Attributes:
      name: its name in messages.
      file: the name of the file that it runs.
      example: a template for `Portable.example`.
      packages: modules that writing and running need.
      extra: the extra of this package that installs them, which is also the value of --format.
      write: writes the file into a folder and returns its runner. Takes the model; how to quantize it: "none",
        "float16" for weights stored in float16 and used in float32, "int8" for weights and, in each product,
        activations, or "int8-static" for both between products too; the folder; and batches to calibrate with.
    """

    name: str
    file: str
    example: str
    packages: tuple[str, ...]
    extra: str
    write: Callable[[Portable, str, Path, Sequence[dict[str, np.ndarray]]], Runner]

    def check_installed(self, quantize: str = "none") -> None:
        """Raises InputError if a package is missing."""
        _check_packages(f"--format={self.extra}", self.packages, self.extra)
        if quantize == "int8-static":
            _check_packages(f"--quantize={quantize}", ("nncf", "openvino"), "int8")


def _check_packages(flag: str, packages: Sequence[str], extra: str) -> None:
    missing = [name.replace("_", "-") for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"{flag} needs packages that are not installed: {', '.join(missing)}. "
            f"Run `pip install '.[{extra}]'` in a copy of the repository."
        )
