"""KerasHub preset directories of an AlbertBackbone: config.json and model.weights.h5."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.pretrained.keras_files import read_hdf5
from albert_tf.pretrained.names import as_groups
from albert_tf.pretrained.stored import StoredModel, find_vocabulary
from albert_tf.pretrained.weights import to_ours, to_theirs
from data_prep.errors import InputError
from data_prep.files import read_json_object, write_json

_CONFIG_FILE = "config.json"
_WEIGHTS_FILE = "model.weights.h5"
_CLASS = "keras_hub>AlbertBackbone"
_TOKENIZER = "assets/tokenizer"
_FIELDS = {
    "vocab_size": "vocabulary_size",
    "embedding_size": "embedding_dim",
    "hidden_size": "hidden_dim",
    "num_hidden_layers": "num_layers",
    "num_hidden_groups": "num_groups",
    "inner_group_num": "num_inner_repetitions",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_dim",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
    "hidden_dropout_prob": "dropout",
}
# Layers without weights, which Keras' files list nevertheless.
_EMPTY = (
    "layers/add",
    "layers/dropout",
    "layers/input_layer",
    "layers/input_layer_1",
    "layers/input_layer_2",
)


def read_kerashub(folder: Path) -> StoredModel:
    """Reads a preset of an AlbertBackbone. It has no heads; activation and epsilon are fixed in KerasHub.

    Raises:
      InputError: a file is missing, damaged or from another model, or names, shapes and configuration do not
        fit each other.
    """
    config, path = _config(folder / _CONFIG_FILE), folder / _WEIGHTS_FILE
    weights = to_ours(read_hdf5(path), config, "kerashub", str(path))
    vocabulary = find_vocabulary(folder / _TOKENIZER, ["*.spm"], "*vocab*.txt")
    return StoredModel("kerashub", folder, config, weights, vocabulary)


def write_kerashub(stored: StoredModel, folder: Path) -> list[str]:
    """Writes a preset that `keras_hub.models.AlbertBackbone.from_preset` loads.

    Returns:
      Notes on what KerasHub cannot hold.

    Raises:
      InputError: KerasHub's backbone cannot represent this model.
    """
    config = as_groups(stored.config)
    _check_representable(config, stored)
    values = {theirs: getattr(config, ours) for ours, theirs in _FIELDS.items()}
    values |= {"name": "albert_backbone", "trainable": True, "dtype": _dtype("float32")}
    write_json(folder / _CONFIG_FILE, _serialized("albert_backbone", "AlbertBackbone", values))
    arrays = to_theirs(stored.weights, stored.config, "kerashub")
    count = sum(array.size for array in arrays.values())
    metadata = {"keras_version": keras.__version__, "parameter_count": count}
    metadata["date_saved"] = datetime.now(UTC).strftime("%Y-%m-%d@%H:%M:%S")
    write_json(folder / "metadata.json", metadata)
    _write_arrays(folder / _WEIGHTS_FILE, arrays)
    notes = _write_tokenizer(stored, folder)
    heads = [part for part in stored.parts if part != "pooler"]
    heads += [stored.head.describe()] if stored.head else []
    if heads:
        notes.append(f"KerasHub's backbone cannot hold heads: left out {', '.join(heads)}")
    if config.attention_probs_dropout_prob != config.hidden_dropout_prob:
        notes.append("KerasHub has one dropout rate: hidden_dropout_prob is used for both")
    return notes


def _config(path: Path) -> AlbertConfig:
    values = read_json_object(path)
    fields = values.get("config")
    if values.get("registered_name") != _CLASS or not isinstance(fields, dict):
        raise InputError(f"{path} must describe a {_CLASS}. Received {values.get('registered_name')!r}.")
    missing = [name for name in _FIELDS.values() if name not in fields]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}.")
    ours: dict[str, Any] = {name: fields[theirs] for name, theirs in _FIELDS.items()}
    ours["attention_probs_dropout_prob"] = ours["hidden_dropout_prob"]
    return AlbertConfig.from_dict(ours)


def _check_representable(config: AlbertConfig, stored: StoredModel) -> None:
    fixed = {"hidden_act": "gelu", "layer_norm_epsilon": 1e-12}
    for name, value in fixed.items():
        if getattr(config, name) != value:
            raise InputError(
                f"KerasHub's AlbertBackbone has {name} {value}. Received {getattr(config, name)}."
            )
    if config.num_hidden_layers % config.num_hidden_groups:
        raise InputError(
            "KerasHub's AlbertBackbone needs `num_hidden_layers` to be divisible by `num_hidden_groups`. "
            f"Received {config.num_hidden_layers} and {config.num_hidden_groups}."
        )
    if "pooler" not in stored.parts:
        raise InputError(f"KerasHub's AlbertBackbone has a pooler, which {stored.path} does not hold.")


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
        for layer in _EMPTY:
            file.create_group(f"{layer}/vars")


def _write_tokenizer(stored: StoredModel, folder: Path) -> list[str]:
    vocabulary = stored.vocabulary
    if vocabulary is None:
        return []
    if vocabulary.kind != "sentencepiece":
        return ["KerasHub's AlbertTokenizer reads SentencePiece models only: left out vocab.txt"]
    (folder / _TOKENIZER).mkdir(parents=True)
    (folder / _TOKENIZER / "vocabulary.spm").write_bytes(vocabulary.content)
    values = {"name": "albert_tokenizer", "trainable": True, "dtype": _dtype("int32"), "proto": None}
    values |= {"config_file": "tokenizer.json", "sequence_length": None, "add_bos": False, "add_eos": False}
    write_json(folder / "tokenizer.json", _serialized("albert_tokenizer", "AlbertTokenizer", values))
    if vocabulary.normalization.do_lower_case:
        return ["KerasHub's AlbertTokenizer does not lower-case"]
    return []


def _serialized(module: str, class_name: str, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "module": f"keras_hub.src.models.albert.{module}",
        "class_name": class_name,
        "config": config,
        "registered_name": f"keras_hub>{class_name}",
    }


def _dtype(name: str) -> dict[str, Any]:
    config = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": name}}
    return {**config, "registered_name": None}
