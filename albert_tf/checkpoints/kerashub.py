"""KerasHub presets of an AlbertBackbone, alone or in a task model, AlbertTextClassifier or AlbertMaskedLM.

config.json and model.weights.h5; of a task model also task.json and task.weights.h5; with a vocabulary
tokenizer.json, and of a task model preprocessor.json. Presets of KerasNLP, as KerasHub was called, are read too.
"""

import importlib.metadata
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from albert_tf.checkpoints.heads import Head, head_size, read_weights
from albert_tf.checkpoints.keras_files import read_hdf5
from albert_tf.checkpoints.names import CLASSES, KERASHUB_TASK, NUMBERS, SEQUENCE_HEAD, as_groups
from albert_tf.checkpoints.stored import StoredModel, find_vocabulary, read_optional_json
from albert_tf.checkpoints.weights import to_theirs
from albert_tf.config import AlbertConfig
from data_prep.errors import InputError
from data_prep.files import Number, as_record, read_json_object, write_json
from data_prep.tokenizers.vocabulary import write_normalization

_CONFIG_FILE = "config.json"
_WEIGHTS_FILE = "model.weights.h5"
_BACKBONE = "AlbertBackbone"
_PREPROCESSOR_FILE = "preprocessor.json"
_TASK_CONFIG_FILE, _TASK_WEIGHTS_FILE = "task.json", "task.weights.h5"
_CLASSIFIER, _MASKED_LM = "AlbertTextClassifier", "AlbertMaskedLM"
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
_EPSILON_NOTE = "KerasHub computes the LayerNorm of its masked-LM head with epsilon 1e-5"
# Keras 3.0 saved the layers of attention under the names of private attributes.
_PRIVATE = re.compile(r"/_(query|key|value|output)_dense/")
# Layers without weights, which Keras' files list nevertheless.
_EMPTY = (
    "layers/add",
    "layers/dropout",
    "layers/input_layer",
    "layers/input_layer_1",
    "layers/input_layer_2",
)


def read_kerashub(folder: Path) -> StoredModel:
    """Reads a preset of an AlbertBackbone, with the head of its task model; activation and epsilon are fixed.

    Raises:
      InputError: a file is missing, damaged or from another model, or names, shapes and configuration do not
        fit each other.
    """
    config, path = _config(folder / _CONFIG_FILE), folder / _WEIGHTS_FILE
    arrays = {_PRIVATE.sub(r"/\1_dense/", name): array for name, array in read_hdf5(path).items()}
    task, notes = read_optional_json(folder / _TASK_CONFIG_FILE), []
    name = _class_name(task)
    if name in (_CLASSIFIER, _MASKED_LM):
        task_arrays = read_hdf5(folder / _TASK_WEIGHTS_FILE, lambda name: name.startswith("layers/"))
        arrays |= {f"{KERASHUB_TASK}{name}": array for name, array in task_arrays.items()}
    elif task:
        notes.append(f"left out: what {_TASK_WEIGHTS_FILE} holds for {name}")
    size = head_size(SEQUENCE_HEAD, arrays, config, "kerashub") if name == _CLASSIFIER else None
    weights, head_weights = read_weights(arrays, config, "kerashub", str(path), size)
    head = None
    if size:
        dropout = as_record(_Task, task, folder / _TASK_CONFIG_FILE).config.dropout
        head = Head(size, (NUMBERS if size.outputs == 1 else CLASSES,), head_weights, dropout=dropout)
    if name == _MASKED_LM:
        notes.append(_EPSILON_NOTE)
    vocabulary = find_vocabulary(folder / _TOKENIZER, ["*.spm"], "*vocab*.txt")
    return StoredModel("kerashub", folder, config, weights, vocabulary, tuple(notes), head)


@dataclass(frozen=True)
class _TaskFields:
    dropout: Number | None = None


@dataclass(frozen=True)
class _Task:
    config: _TaskFields = _TaskFields()


def write_kerashub(stored: StoredModel, folder: Path) -> list[str]:
    """Writes a preset that `from_preset` of KerasHub's AlbertBackbone loads, and of the task model of its head.

    Returns:
      Notes on what KerasHub cannot hold.

    Raises:
      InputError: KerasHub's classes cannot represent this model.
    """
    config = as_groups(stored.config)
    _check_representable(config, stored)
    values = {theirs: getattr(config, ours) for ours, theirs in _FIELDS.items()}
    values |= {"name": "albert_backbone", "trainable": True, "dtype": _dtype("float32")}
    backbone = _serialized("albert_backbone", _BACKBONE, values)
    write_json(folder / _CONFIG_FILE, backbone)
    size = stored.head.size if stored.head else None
    arrays = to_theirs(stored.all_weights, stored.config, "kerashub", size)
    task_arrays = {name: arrays.pop(name) for name in list(arrays) if name.startswith(KERASHUB_TASK)}
    count = sum(array.size for array in arrays.values())
    metadata = {"keras_version": importlib.metadata.version("keras"), "parameter_count": count}
    metadata["date_saved"] = datetime.now(UTC).strftime("%Y-%m-%d@%H:%M:%S")
    write_json(folder / "metadata.json", metadata)
    _write_arrays(folder / _WEIGHTS_FILE, arrays, _EMPTY)
    notes = _write_tokenizer(stored, folder)
    if task_arrays:
        notes += _write_task(stored, backbone, task_arrays, folder)
    if "sentence_order" in stored.parts:
        notes.append("KerasHub has no sentence-order head: left out sentence_order")
    if config.attention_probs_dropout_prob != config.hidden_dropout_prob:
        notes.append("KerasHub has one dropout rate: hidden_dropout_prob is used for both")
    return notes


def _config(path: Path) -> AlbertConfig:
    values = read_json_object(path)
    fields = values.get("config")
    if _class_name(values) != _BACKBONE or not isinstance(fields, dict):
        raise InputError(
            f"{path} must describe a keras_hub>{_BACKBONE}. Received {values.get('registered_name')!r}."
        )
    missing = [name for name in _FIELDS.values() if name not in fields]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}.")
    ours: dict[str, Any] = {name: fields[theirs] for name, theirs in _FIELDS.items()}
    ours["attention_probs_dropout_prob"] = ours["hidden_dropout_prob"]
    return AlbertConfig.from_dict(ours)


def _class_name(serialized: Mapping[str, Any]) -> str:
    """The class of a serialized object, without its package if that is KerasHub."""
    name = str(serialized.get("registered_name", ""))
    return name.removeprefix("keras_hub>").removeprefix("keras_nlp>")


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
    if stored.head and stored.head.uses not in ((CLASSES,), (NUMBERS,)):
        raise InputError(
            f"KerasHub's task model of ALBERT is {_CLASSIFIER}. Received a head for {stored.head.what}; "
            "--to=keras can hold it."
        )
    if "pooler" not in stored.parts:
        raise InputError(f"KerasHub's AlbertBackbone has a pooler, which {stored.path} does not hold.")


def _write_arrays(path: Path, arrays: dict[str, np.ndarray], without_weights: Iterable[str]) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
        for layer in without_weights:
            file.create_group(f"{layer}/vars")


def _write_task(
    stored: StoredModel, backbone: dict[str, Any], arrays: dict[str, np.ndarray], folder: Path
) -> list[str]:
    """Writes the task model's files; returns notes."""
    head = stored.head
    values: dict[str, Any] = {"backbone": backbone, "preprocessor": _write_preprocessor(stored, folder)}
    if head:
        module, name, notes = "albert_text_classifier", _CLASSIFIER, []
        dropout = 0.1 if head.dropout is None else head.dropout
        values |= {"num_classes": head.size.outputs, "activation": "linear", "dropout": dropout}
        if head.labels:
            notes.append(f"KerasHub does not name the classes: {', '.join(head.labels)}")
    else:
        module, name, notes = "albert_masked_lm", _MASKED_LM, [_EPSILON_NOTE]
    write_json(folder / _TASK_CONFIG_FILE, _serialized(module, name, {**values, "name": module}))
    layers = {path.removeprefix(KERASHUB_TASK): array for path, array in arrays.items()}
    _write_arrays(folder / _TASK_WEIGHTS_FILE, layers, ["layers/dropout" if head else "layers/input_layer_3"])
    return notes


def _write_preprocessor(stored: StoredModel, folder: Path) -> dict[str, Any] | None:
    """Writes what lets the task model take texts, if KerasHub has a tokenizer for them."""
    if not _has_tokenizer(stored):
        return None
    longest = stored.config.max_position_embeddings
    module = "albert_text_classifier" if stored.head else "albert_masked_lm"
    name = f"{module}_preprocessor"
    values = {"name": name, "trainable": True, "dtype": _dtype("float32"), "config_file": _PREPROCESSOR_FILE}
    values |= {"tokenizer": _tokenizer(), "sequence_length": longest, "truncate": "round_robin"}
    if not stored.head:  # the paper's shares, section 4.1
        values |= {"mask_selection_rate": 0.15, "mask_selection_length": min(96, longest)}
        values |= {"mask_token_rate": 0.8, "random_token_rate": 0.1}
    class_name = f"{_CLASSIFIER if stored.head else _MASKED_LM}Preprocessor"
    preprocessor = _serialized(name, class_name, values)
    write_json(folder / _PREPROCESSOR_FILE, preprocessor)
    return preprocessor


def _has_tokenizer(stored: StoredModel) -> bool:
    return stored.vocabulary is not None and stored.vocabulary.kind == "sentencepiece"


def _tokenizer() -> dict[str, Any]:
    values = {"name": "albert_tokenizer", "trainable": True, "dtype": _dtype("int32"), "proto": None}
    values |= {"config_file": "tokenizer.json", "sequence_length": None, "add_bos": False, "add_eos": False}
    return _serialized("albert_tokenizer", "AlbertTokenizer", values)


def _write_tokenizer(stored: StoredModel, folder: Path) -> list[str]:
    vocabulary = stored.vocabulary
    if vocabulary is None:
        return []
    if not _has_tokenizer(stored):
        return ["KerasHub's AlbertTokenizer reads SentencePiece models only: left out vocab.txt"]
    file = folder / _TOKENIZER / "vocabulary.spm"
    file.parent.mkdir(parents=True)
    file.write_bytes(vocabulary.content)
    write_normalization(file, vocabulary.normalization)  # for this library; KerasHub has no place for it
    write_json(folder / "tokenizer.json", _tokenizer())
    rules = vocabulary.normalization
    form = ["in lower case"] * rules.do_lower_case + ["without accents"] * (not rules.keep_accents)
    if not form:
        return []
    return [
        f"KerasHub's AlbertTokenizer does not change texts as ours does: give it texts {' and '.join(form)}"
    ]


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
