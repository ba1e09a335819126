"""Adapters: the weights that LoRA trains, in a small file to be loaded onto the same base model.

enable_lora --> fit --> save_adapters --> load_adapters onto a model of the same weights; `model.save` merges
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import safetensors.numpy

from albert_tf.checkpoints.safetensors_files import read_safetensors
from albert_tf.checkpoints.weights import as_weights
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.tasks.task_model import TaskModel
from data_prep.errors import InputError
from data_prep.files import Integer, Number, as_record, decode_json, written_aside
from data_prep.storage.copies import fetched

ADAPTERS_FILE = "adapters.safetensors"  # in the folder of a seed
_LORA = "lora_kernel"  # in the names of Keras' low-rank matrices


def save_adapters(model: TaskModel | AlbertEncoder, path: str | Path) -> None:
    """Writes the low-rank matrices and the head of a model with LoRA, and the model that they fit.

    Raises:
      ValueError: the model has no LoRA.

    >>> model = TextClassifier.from_pretrained("runs/base", labels=("bad", "good"))
    >>> model.enable_lora(4)
    >>> save_adapters(model, "adapters.safetensors")
    """
    encoder = _encoder_of(model)
    if encoder.lora_rank is None:
        raise ValueError("`save_adapters` needs a model with LoRA. Call `enable_lora(rank)` before training.")
    arrays = {name: keras.ops.convert_to_numpy(variable) for name, variable in _adapters(model).items()}
    facts = {**_facts(model), "rank": encoder.lora_rank, "alpha": encoder.lora_alpha, "base": _hash(encoder)}
    with written_aside(Path(path)) as aside:
        aside.touch()
        mode = aside.stat().st_mode
        safetensors.numpy.save_file(
            arrays, str(aside), {name: json.dumps(fact) for name, fact in facts.items()}
        )
        aside.chmod(mode)  # safetensors lets only the owner read


def load_adapters(model: TaskModel | AlbertEncoder, path: str | Path) -> None:
    """Sets the low-rank matrices and the head of a model to those of a file; enables LoRA if necessary.

    Args:
      model: of the same class, labels and encoder weights as the model that the file was saved from.
      path: from `save_adapters`, or its address.

    Raises:
      InputError: the file is damaged, or belongs to another model, or the model has LoRA of another rank or alpha.

    >>> tuned = TextClassifier.from_pretrained("runs/base", labels=("bad", "good"))
    >>> tuned.enable_lora(4)
    >>> save_adapters(tuned, "adapters.safetensors")
    >>> model = TextClassifier.from_pretrained("runs/base", labels=("bad", "good"))
    >>> load_adapters(model, "adapters.safetensors")
    """
    encoder = _encoder_of(model)
    with fetched(path) as file:
        arrays, facts = _read(file)
    rank, alpha = facts.pop("rank"), facts.pop("alpha")
    if encoder.lora_rank not in (None, rank):
        raise InputError(f"Adapters must have the model's rank, {encoder.lora_rank}. {path} has rank {rank}.")
    if encoder.lora_alpha not in (None, alpha):
        raise InputError(
            f"Adapters must have the model's `alpha`, {encoder.lora_alpha:g}. {path} has {alpha:g}; load it into "
            "a model without LoRA, which `load_adapters` enables."
        )
    if facts.pop("base") != _hash(encoder):
        raise InputError(
            f"Adapters fit only the weights that they were trained on. {path} was trained on others than this "
            "model's; start from the same checkpoint."
        )
    thresholds = facts.pop("thresholds", ())
    ours = {name: fact for name, fact in _facts(model).items() if name != "thresholds"}
    if facts != ours:
        raise InputError(f"Adapters must be for the same task and labels, {ours}. {path} is for {facts}.")
    if isinstance(model, TaskModel) and len(thresholds) != len(model.thresholds):
        raise InputError(
            f"Adapters must have a threshold for each label, {len(model.thresholds)}. {path} has "
            f"{len(thresholds)}."
        )
    if encoder.lora_rank is None:
        encoder.enable_lora(rank, alpha)
    variables = _adapters(model)
    if {name: array.shape for name, array in arrays.items()} != {n: v.shape for n, v in variables.items()}:
        raise InputError(f"{path} does not fit this model: other names or shapes.")
    for name, variable in variables.items():
        variable.assign(arrays[name])
    if isinstance(model, TaskModel):
        model.thresholds = tuple(thresholds)


def _encoder_of(model: TaskModel | AlbertEncoder) -> AlbertEncoder:
    return model.encoder if isinstance(model, TaskModel) else model


def _adapters(model: TaskModel | AlbertEncoder) -> dict[str, keras.Variable]:
    """The variables that LoRA leaves to train, by name."""
    return {variable.path.removeprefix(f"{model.name}/"): variable for variable in model.trainable_variables}


def _facts(model: TaskModel | AlbertEncoder) -> dict:
    """What must be the same in the model that adapters are loaded into; and the thresholds, which are loaded."""
    if isinstance(model, AlbertEncoder):
        return {"model": "AlbertEncoder"}
    return {
        "model": type(model).__name__,
        "labels": list(model.labels),
        "thresholds": list(model.thresholds),
    }


def _hash(encoder: AlbertEncoder) -> str:
    """The SHA-256 of the encoder's own weights."""
    digest = hashlib.sha256()
    for variable in encoder.variables:
        if _LORA not in variable.path and keras.backend.is_float_dtype(variable.dtype):
            digest.update(np.asarray(keras.ops.convert_to_numpy(variable), np.float32).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class _Facts:
    rank: Integer
    alpha: Number
    thresholds: tuple[Number, ...] = ()


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    arrays, metadata = read_safetensors(path)
    facts = {name: decode_json(fact, path) for name, fact in metadata.items()}
    ranks = {array.shape[:1] for name, array in arrays.items() if name.endswith(f"{_LORA}_b")}
    if not {"rank", "alpha", "base", "model"} <= facts.keys() or ranks != {
        (as_record(_Facts, facts, path).rank,)
    }:
        raise InputError(
            f"{path} must be a file that `save_adapters` wrote. It lacks a base, or its matrices have another "
            "rank than it states."
        )
    return as_weights(arrays, path), facts
