"""Do two sets of files compute the same? Forward passes on random input."""

import importlib.metadata
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.pretrained import peers
from albert_tf.pretrained.own import build_model
from albert_tf.pretrained.stored import StoredModel
from data_prep.errors import InputError

TOLERANCE = 1e-4  # of the largest output, or of 1; float32 in another order of summation stays far below
_BATCH, _LONGEST, _PREDICTIONS = 3, 32, 4


@dataclass(frozen=True)
class Comparison:
    """How far the outputs of two models lie apart.

    Attributes:
      difference: the largest, over all outputs.
      scale: the largest output.
      outputs: which were compared.
      source_run_by, result_run_by: whose code computed them.
    """

    difference: float
    scale: float
    outputs: tuple[str, ...]
    source_run_by: str
    result_run_by: str

    @property
    def sentence(self) -> str:
        """For people."""
        return (
            f"verified: maximum difference {self.difference:.2g}, of outputs up to {self.scale:.2g}, in "
            f"{', '.join(self.outputs)} (source run by {self.source_run_by}, result by {self.result_run_by})"
        )

    @property
    def is_equal(self) -> bool:
        """Whether the difference is one of rounding; NaN is not."""
        return self.difference <= TOLERANCE * max(1.0, self.scale)


def compare(source: StoredModel, result: StoredModel, seed: int = 0) -> Comparison:
    """Runs both models on the same random input.

    Where transformers or keras_hub is installed, files of their format are run by them and not by us: a name
    that our table has wrong then shows.
    """
    batch = random_batch(source.config, seed)
    first, first_runner = _outputs(source, batch)
    second, second_runner = _outputs(result, batch)
    common = tuple(name for name in first if name in second)
    assert common
    # np.max, since max() may pass over a NaN
    difference = float(np.max([np.abs(first[name] - second[name]).max() for name in common]))
    scale = float(np.max([np.abs(first[name]).max() for name in common]))
    return Comparison(difference, scale, common, first_runner, second_runner)


def random_batch(config: AlbertConfig, seed: int) -> dict[str, np.ndarray]:
    """Random ids, (B, T), with padding and several token types, and masked_lm_positions (B, P), all int32."""
    rng = np.random.default_rng(seed)
    T = min(_LONGEST, config.max_position_embeddings)
    lengths = rng.integers(T // 2 + 1, T + 1, _BATCH)
    batch = {
        "input_ids": rng.integers(0, config.vocab_size, (_BATCH, T)),
        "input_mask": np.arange(T) < lengths[:, None],
        "token_type_ids": rng.integers(0, config.type_vocab_size, (_BATCH, T)),
        "masked_lm_positions": rng.integers(0, T // 2 + 1, (_BATCH, _PREDICTIONS)),
    }
    return {name: array.astype("int32") for name, array in batch.items()}


def _outputs(stored: StoredModel, batch: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str]:
    """What the files say, and whose code said it; outputs of parts that the files do not hold are left out."""
    if stored.path.is_dir() and peers.is_installed(stored.format):
        package = peers.PACKAGES[stored.format][0]
        runner = f"{package} {importlib.metadata.version(package)}"
        return _of_parts(stored, _peer_outputs(stored, batch)), runner
    return _of_parts(stored, _our_outputs(stored, batch)), "albert_tf"


def _of_parts(stored: StoredModel, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    needs = {
        "sequence_output": (),
        "pooled_output": ("pooler",),
        "masked_lm_logits": ("masked_lm",),
        "sentence_order_logits": ("pooler", "sentence_order"),
    }
    return {
        name: outputs[name] for name in needs if name in outputs and set(needs[name]) <= set(stored.parts)
    }


def _our_outputs(stored: StoredModel, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    model = build_model(stored, seed=0)
    outputs = {**model.encoder(batch), **model(batch)}
    return {name: np.asarray(value) for name, value in outputs.items()}


def _peer_outputs(stored: StoredModel, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = f"{folder}/inputs.npz", f"{folder}/outputs.npz"
        np.savez(inputs, **batch)  # type: ignore[arg-type]
        arguments = [stored.format, str(stored.path.absolute()), inputs, outputs]
        # -P: our folder is no place to import from.
        command = [sys.executable, "-P", peers.__file__, *arguments]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            reason = (process.stderr.strip() or "no reason given").splitlines()[-1]
            raise InputError(
                f"{peers.PACKAGES[stored.format][0]}, which is installed here, cannot run {stored.path}: {reason} "
                "(--noverify converts without running anything)"
            )
        with np.load(outputs) as arrays:
            return dict(arrays)


def check_equal(comparison: Comparison) -> None:
    """Raises InputError where the difference is more than rounding."""
    if not comparison.is_equal:
        raise InputError(
            f"The result does not compute what the source does: the largest difference is "
            f"{comparison.difference:.2g}, of outputs up to {comparison.scale:.2g} "
            f"({comparison.source_run_by} against {comparison.result_run_by}). Nothing was written."
        )
