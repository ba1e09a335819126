"""Checks that two sets of files hold the same model: forward passes of both on the same random input."""

import importlib.metadata
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from albert_tf.checkpoints.heads import Head
from albert_tf.checkpoints.names import CONDITIONAL_SPAN_HEAD, SPAN_HEAD, TOKEN_HEAD, VECTOR_HEAD
from albert_tf.checkpoints.sentence_vectors import MEAN
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.conversion import peers
from albert_tf.model.inputs import random_inputs
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.model.sentence_vectors import sentence_vectors
from albert_tf.tasks.open_task import kinds_of
from albert_tf.tasks.task_model import TaskModel
from data_prep.errors import InputError

TOLERANCE = (
    1e-4  # relative to an output's largest number, or to 1; another order of summation stays far below
)
_SENTENCE_EMBEDDING = "sentence_embedding"
_HEAD_PREFIX = "head_"  # of the names of outputs of a fine-tuned model's head
# The parts that each output needs to be meaningful.
_NEEDED_PARTS = {
    "sequence_output": (),
    "pooled_output": ("pooler",),
    "masked_lm_logits": ("masked_lm",),
    "sentence_order_logits": ("pooler", "sentence_order"),
}


@dataclass(frozen=True)
class OutputComparison:
    """How far apart the outputs of two models are.

    Attributes:
      difference: the largest absolute difference, over all outputs.
      scale: the largest absolute output of the source.
      is_equal: whether each output differs by rounding only, integers not at all; NaN is a difference.
      outputs: the names of the outputs that were compared.
      source_run_by, result_run_by: the packages that computed them.
    """

    difference: float
    scale: float
    is_equal: bool
    outputs: tuple[str, ...]
    source_run_by: str
    result_run_by: str

    def describe(self, label: str = "verified") -> str:
        """The result in words."""
        return (
            f"{label}: maximum difference {self.difference:.2g}, of outputs up to {self.scale:.2g}, in "
            f"{', '.join(self.outputs)} (source run by {self.source_run_by}, result by {self.result_run_by})"
        )


def compare_outputs(
    source: Mapping[str, Any], result: Mapping[str, Any], source_run_by: str, result_run_by: str
) -> OutputComparison:
    """Compares the arrays that have the same name in both mappings."""
    common = tuple(name for name in source if name in result)
    assert common
    pairs = [(np.asarray(source[name]), np.asarray(result[name])) for name in common]
    differences = [float(np.abs(theirs - ours).max()) for ours, theirs in pairs]
    scales = [float(np.abs(ours).max()) for ours, _ in pairs]
    # Each output by itself: a tolerance for large ids would accept any probabilities.
    tolerances = [
        0.0 if ours.dtype.kind in "iu" else TOLERANCE * max(1.0, scale)
        for (ours, _), scale in zip(pairs, scales, strict=True)
    ]
    is_equal = all(one <= most for one, most in zip(differences, tolerances, strict=True))
    # np.max, since max() may ignore a NaN
    difference, scale = float(np.max(differences)), float(np.max(scales))
    return OutputComparison(difference, scale, is_equal, common, source_run_by, result_run_by)


def compare_models(source: StoredModel, result: StoredModel) -> OutputComparison:
    """Runs both models on the same random input.

    If transformers or keras_hub is installed, it runs the files in its own format instead of this library, so
    that a wrong name in the table of parameters shows.
    """
    batch = random_inputs(source.config, seed=0)
    ours, source_run_by = _outputs(source, batch)
    theirs, result_run_by = _outputs(result, batch)
    return compare_outputs(ours, theirs, source_run_by, result_run_by)


def check_equal(comparison: OutputComparison, *, rounded: bool = False) -> None:
    """Raises InputError if the outputs differ by more than rounding.

    Args:
      comparison: the comparison of source and result.
      rounded: whether the result stores or computes fewer bits on purpose: then any finite difference passes.
    """
    if not (np.isfinite(comparison.difference) if rounded else comparison.is_equal):
        raise InputError(
            "The result must compute the same as the source. The largest difference is "
            f"{comparison.difference:.2g}, of outputs up to {comparison.scale:.2g} "
            f"({comparison.source_run_by} against {comparison.result_run_by}). Nothing was written."
        )


def _outputs(stored: StoredModel, batch: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str]:
    """The outputs of the parts that the files hold, and the package that computed them."""
    if stored.path.is_dir() and peers.is_installed(stored.format):
        package = peers.PACKAGES[stored.format][0]
        run_by, outputs = f"{package} {importlib.metadata.version(package)}", _peer_outputs(stored, batch)
    else:
        run_by, outputs = "albert_tf", _our_outputs(stored, batch)
    names = [name for name, needed in _NEEDED_PARTS.items() if set(needed) <= set(stored.parts)]
    names += [name for name in outputs if name.startswith(_HEAD_PREFIX) or name == _SENTENCE_EMBEDDING]
    return {name: outputs[name] for name in names if name in outputs}, run_by


def _our_outputs(stored: StoredModel, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    model = AlbertPretrainer.of_stored(stored, seed=0, dtype="float32")
    outputs = {**model.encoder(batch), **model(batch)}
    if stored.head:
        outputs |= _head_outputs(stored, outputs["sequence_output"], outputs["pooled_output"])
    elif (how := stored.sentence_vectors) and not how.unsupported:
        outputs[_SENTENCE_EMBEDDING] = sentence_vectors(outputs, batch["input_mask"], how)
    return {name: np.asarray(value) for name, value in outputs.items()}


def _head_outputs(stored: StoredModel, sequence: Any, pooled: Any) -> dict[str, Any]:
    """The head's outputs for the encoder's outputs, without dropout."""
    head = stored.head
    assert head
    if head.size.part == VECTOR_HEAD:
        outputs = {"sequence_output": sequence, "pooled_output": pooled}
        mask = np.ones(sequence.shape[:2], "int32")
        return {f"{_HEAD_PREFIX}vectors": sentence_vectors(outputs, mask, stored.sentence_vectors or MEAN)}
    model = kinds_of(head)[0].model.from_stored(stored, seed=0, dtype="float32")
    if head.size.part == CONDITIONAL_SPAN_HEAD:
        nothing = np.zeros(sequence.shape[:2], "int32")
        outputs = getattr(model, model.head_name)(sequence, nothing, start_positions=nothing[:, 0])
        return {f"{_HEAD_PREFIX}{name}": value for name, value in outputs.items()}
    return {f"{_HEAD_PREFIX}logits": head_logits(model, head, sequence, pooled)}


def head_logits(model: TaskModel, head: Head, sequence: Any, pooled: Any) -> Any:
    """The logits of a head, other than that of SQuAD 2.0, as Hugging Face's class has them."""
    layer = getattr(model, model.head_name)
    if head.size.part == SPAN_HEAD:
        return layer.scores(sequence)  # (B, T, 2)
    return layer(sequence if head.size.part == TOKEN_HEAD else pooled)


def _peer_outputs(stored: StoredModel, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = f"{folder}/inputs.npz", f"{folder}/outputs.npz"
        np.savez(inputs, **batch)  # type: ignore[arg-type]
        arguments = [stored.format, str(stored.path.absolute()), inputs, outputs]
        # -P keeps this library's folder out of the peer's import path.
        command = [sys.executable, "-P", peers.__file__, *arguments]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            reason = (process.stderr.strip() or "no reason given").splitlines()[-1]
            raise InputError(
                f"{peers.PACKAGES[stored.format][0]}, which is installed, cannot run {stored.path}: {reason} "
                "(--noverify converts without running the result)"
            )
        with np.load(outputs) as arrays:
            return dict(arrays)
