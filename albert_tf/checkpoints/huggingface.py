"""Hugging Face directories: config.json with model.safetensors (sharded too), or the old pytorch_model.bin."""

import dataclasses
import logging
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from albert_tf.checkpoints.heads import Head, head_size, read_weights
from albert_tf.checkpoints.names import (
    ANSWERS,
    CLASSES,
    CONDITIONAL_SPAN_HEAD,
    LABEL_SETS,
    NUMBERS,
    OPTIONS,
    SEQUENCE_HEAD,
    SPAN_HEAD,
    TOKEN_HEAD,
    WORD_CLASSES,
    FileDtype,
    Use,
    as_groups,
)
from albert_tf.checkpoints.pytorch_files import read_pytorch
from albert_tf.checkpoints.safetensors_files import read_safetensors
from albert_tf.checkpoints.sentence_transformers import (
    lowers_case,
    read_sentence_vectors,
    transformer_folder,
    write_sentence_vectors,
)
from albert_tf.checkpoints.stored import StoredModel, find_vocabulary
from albert_tf.checkpoints.weights import to_theirs
from albert_tf.config import AlbertConfig
from data_prep.errors import InputError
from data_prep.files import Number, as_record, read_json_object, write_json
from data_prep.tokenizers.tokenizer_json import (
    TOKENIZER_JSON,
    other_ids,
    read_tokenizer_json,
)
from data_prep.tokenizers.tokenizer_json_writing import write_tokenizer_json
from data_prep.tokenizers.vocabulary import TOKENIZER_CONFIG, Vocabulary

_CONFIG_FILE = "config.json"
_SAFETENSORS = "model.safetensors"
_PYTORCH = "pytorch_model.bin"
WEIGHT_FILES = (_SAFETENSORS, _PYTORCH)  # a user may name these instead of the directory
# Our field -> its name and its default in Hugging Face's configuration.
_FIELDS: dict[str, tuple[str, Any]] = {
    "vocab_size": ("vocab_size", 30000),
    "embedding_size": ("embedding_size", 128),
    "hidden_size": ("hidden_size", 4096),
    "num_hidden_layers": ("num_hidden_layers", 12),
    "num_hidden_groups": ("num_hidden_groups", 1),
    "inner_group_num": ("inner_group_num", 1),
    "num_attention_heads": ("num_attention_heads", 64),
    "intermediate_size": ("intermediate_size", 16384),
    "hidden_act": ("hidden_act", "gelu_new"),
    "hidden_dropout_prob": ("hidden_dropout_prob", 0.0),
    "attention_probs_dropout_prob": ("attention_probs_dropout_prob", 0.0),
    "max_position_embeddings": ("max_position_embeddings", 512),
    "type_vocab_size": ("type_vocab_size", 2),
    "initializer_range": ("initializer_range", 0.02),
    "layer_norm_epsilon": ("layer_norm_eps", 1e-12),
}
_THEIR_ACTIVATIONS = {
    "gelu": "gelu_new",
    "gelu_erf": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
_ACTIVATIONS = {theirs: ours for ours, theirs in _THEIR_ACTIVATIONS.items()} | {"gelu_pytorch_tanh": "gelu"}
# Copies that files of older versions store beside the originals.
_COPIES = {
    "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
}
# The classes of fine-tuned models, and the head that each has.
_CLASS = "AlbertFor"  # begins their names
_HEADS = {
    CLASSES.architecture: SEQUENCE_HEAD,
    OPTIONS.architecture: SEQUENCE_HEAD,
    ANSWERS.architecture: SPAN_HEAD,
    WORD_CLASSES.architecture: TOKEN_HEAD,
}
_THRESHOLDS = "label_thresholds"  # our own key, which transformers keeps and ignores
_DROPOUT, _DEFAULT_DROPOUT = "classifier_dropout_prob", 0.1
_COUNTER = "albert.embeddings.position_ids"  # 0, 1, 2, ...


def read_huggingface(folder: Path, weight_file: str | None = None) -> StoredModel:
    """Reads a directory that `AlbertModel.from_pretrained` reads, with the heads that it has.

    Args:
      folder: the directory.
      weight_file: which of `WEIGHT_FILES` to read. Default: the first that exists, as one file or in shards.

    Raises:
      InputError: a file is missing, damaged or from another model, or names, shapes and configuration do not
        fit each other, or pytorch_model.bin needs PyTorch, which is not installed.
    """
    how = read_sentence_vectors(folder)
    folder = transformer_folder(folder)
    values = read_json_object(folder / _CONFIG_FILE)
    config = _config(values, folder / _CONFIG_FILE)
    path, arrays = _read_arrays(folder, weight_file)
    arrays = _without_copies(_with_prefix(arrays), path)
    part = _HEADS.get(_architecture_in(values))
    size = head_size(part, arrays, config, "huggingface") if part else None
    weights, head_weights = read_weights(arrays, config, "huggingface", str(path), size)
    vocabulary = find_vocabulary(folder, ["spiece.model"])
    notes: tuple[str, ...] = ()
    if vocabulary is None and (folder / TOKENIZER_JSON).exists():
        vocabulary = read_tokenizer_json(folder / TOKENIZER_JSON)
        if texts := other_ids(folder / TOKENIZER_JSON):
            _warn_once(f"{folder / TOKENIZER_JSON} gives other ids here than in transformers to {texts}.")
    head, use = None, _use_in(values, size.outputs) if size else None
    if size and use is None:
        notes += (f"left out: a head for {values.get('problem_type')} with {size.outputs} outputs",)
    if size and use:
        has_classes = use in (CLASSES, LABEL_SETS, WORD_CLASSES)
        labels = _labels(values, size.outputs, folder) if has_classes else ()
        fields = as_record(_HeadFields, values, folder / _CONFIG_FILE)
        dropout, thresholds = fields.classifier_dropout_prob, fields.label_thresholds
        head = Head(size, (use,), head_weights, labels, dropout, thresholds)
    if how and how.unsupported and not size:
        notes += (f"left out: {how.unsupported} of sentence-transformers, without which vectors differ",)
    if vocabulary and lowers_case(folder):
        normalization = dataclasses.replace(vocabulary.normalization, do_lower_case=True)
        vocabulary = dataclasses.replace(vocabulary, normalization=normalization)
    return StoredModel("huggingface", folder, config, weights, vocabulary, notes, head, how)


@cache  # a command may read a folder several times
def _warn_once(message: str) -> None:
    logging.getLogger(__name__).warning(message)


@dataclass(frozen=True)
class _HeadFields:
    """The fields of config.json about a head besides its kind and labels."""

    classifier_dropout_prob: Number | None = _DEFAULT_DROPOUT
    label_thresholds: tuple[Number, ...] = ()


def write_huggingface(stored: StoredModel, folder: Path, dtype: FileDtype = "float32") -> list[str]:
    """Writes a directory that `from_pretrained` reads; tied weights are stored once, as Hugging Face does.

    If the model says how texts become vectors, `SentenceTransformer` of sentence-transformers reads it too.

    Args:
      stored: the model.
      folder: an empty folder.
      dtype: what the weights are rounded to.

    Returns:
      Notes on what is lost by rounding, and on what transformers does differently.

    Raises:
      InputError: Hugging Face has no such head.
    """
    notes = write_config(stored, folder)
    head = stored.head
    arrays = to_theirs(stored.all_weights, stored.config, "huggingface", head.size if head else None)
    arrays = {name: array.astype(dtype) for name, array in arrays.items()}
    safetensors.numpy.save_file(arrays, str(folder / _SAFETENSORS), metadata={"format": "pt"})
    (folder / _SAFETENSORS).chmod(
        (folder / _CONFIG_FILE).stat().st_mode
    )  # safetensors lets only the owner read
    return notes if dtype == "float32" else [f"the weights are rounded to {dtype}", *notes]


def write_config(stored: StoredModel, folder: Path) -> list[str]:
    """Writes all but the weights: configuration, tokenizer, and how texts become vectors; returns notes."""
    head = stored.head
    if head and head.size.part == CONDITIONAL_SPAN_HEAD:
        raise InputError(
            "Hugging Face's AlbertForQuestionAnswering has the head of SQuAD 1.1. Received that of SQuAD 2.0, "
            "which only --to=tf1 and --to=keras can hold."
        )
    if head and not head.uses:
        raise InputError(f"Hugging Face has no model for {head.what}; --to=keras can hold it.")
    config = as_groups(stored.config).to_dict()
    values = {theirs: config[ours] for ours, (theirs, _) in _FIELDS.items()}
    values |= {
        "hidden_act": _THEIR_ACTIVATIONS[config["hidden_act"]],
        "architectures": [_architecture(stored)],
        "model_type": "albert",
        _DROPOUT: _DEFAULT_DROPOUT,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "tie_word_embeddings": True,
    }
    if head:
        values |= _head_values(head)
    write_json(folder / _CONFIG_FILE, dict(sorted(values.items())))
    notes = []
    if stored.vocabulary:
        notes += _write_tokenizer(stored.vocabulary, config["max_position_embeddings"], folder)
    if stored.sentence_vectors and not stored.sentence_vectors.unsupported:
        write_sentence_vectors(stored, folder)
    return notes


def _architecture(stored: StoredModel) -> str:
    if stored.head:
        return _CLASS + stored.head.uses[0].architecture
    if "sentence_order" in stored.parts:
        return "AlbertForPreTraining"
    return "AlbertForMaskedLM" if "masked_lm" in stored.parts else "AlbertModel"


def _architecture_in(values: dict[str, Any]) -> str:
    """The class of a fine-tuned model, without AlbertFor; "" if there is none."""
    named = values.get("architectures")
    name = str(named[0]) if isinstance(named, list) and named else ""
    return name.removeprefix(_CLASS) if name.startswith(_CLASS) else ""


def _head_values(head: Head) -> dict[str, Any]:
    """What config.json says of a head."""
    use = head.uses[0]
    values: dict[str, Any] = {_DROPOUT: _DEFAULT_DROPOUT if head.dropout is None else head.dropout}
    if use.problem:
        values["problem_type"] = use.problem
    if head.thresholds:
        values[_THRESHOLDS] = head.thresholds
    if use not in (ANSWERS, OPTIONS):
        names = head.class_names
        values["id2label"] = {str(number): name for number, name in enumerate(names)}
        values["label2id"] = {name: number for number, name in enumerate(names)}
    return values


def _use_in(values: dict[str, Any], outputs: int) -> Use | None:
    """What a head is for, if there is a kind of task for it; without `problem_type` one output is a number."""
    architecture = _architecture_in(values)
    if architecture != NUMBERS.architecture:
        return Use(architecture)
    use = Use(architecture, values.get("problem_type") or (NUMBERS if outputs == 1 else CLASSES).problem)
    if use not in (CLASSES, LABEL_SETS, NUMBERS) or (use == NUMBERS and outputs != 1):
        return None
    return use


def _labels(values: dict[str, Any], outputs: int, folder: Path) -> tuple[str, ...]:
    """The names in `id2label`, in the order of the outputs."""
    names = values.get("id2label") or {str(number): f"LABEL_{number}" for number in range(outputs)}
    if not isinstance(names, dict) or sorted(names) != sorted(str(number) for number in range(outputs)):
        raise InputError(
            f"`id2label` in {folder / _CONFIG_FILE} must name each of the {outputs} outputs of the head. Received "
            f"{names}."
        )
    labels = tuple(str(names[str(number)]) for number in range(outputs))
    if len(set(labels)) < len(labels):
        raise InputError(
            f"`id2label` in {folder / _CONFIG_FILE} must give different names. Received {', '.join(labels)}."
        )
    return labels


def _write_tokenizer(vocabulary: Vocabulary, longest: int, folder: Path) -> list[str]:
    """Writes the files of the tokenizer and returns what transformers does differently."""
    values: dict[str, Any] = {"do_lower_case": vocabulary.normalization.do_lower_case}
    values["model_max_length"] = longest
    # Without these names transformers gives no token_type_ids, and a pair is one text.
    values["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    notes = []
    symbols = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    if vocabulary.kind == "wordpiece":
        (folder / "vocab.txt").write_bytes(vocabulary.content)
        symbols |= {"tokenizer_class": "BertTokenizer", "unk_token": "[UNK]", "pad_token": "[PAD]"}
        if vocabulary.normalization.keep_accents:  # otherwise as do_lower_case
            values["strip_accents"] = False
    else:
        (folder / "spiece.model").write_bytes(vocabulary.content)
        symbols |= {"tokenizer_class": "AlbertTokenizer", "unk_token": "<unk>", "pad_token": "<pad>"}
        symbols |= {"bos_token": "[CLS]", "eos_token": "[SEP]"}
        values |= dataclasses.asdict(vocabulary.normalization)
        if note := write_tokenizer_json(vocabulary, folder / TOKENIZER_JSON):
            notes.append(note)
        if (folder / TOKENIZER_JSON).exists():
            # Another class would build another tokenizer from the pieces.
            symbols["tokenizer_class"] = "PreTrainedTokenizerFast"
    write_json(folder / TOKENIZER_CONFIG, dict(sorted({**symbols, **values}.items())))
    return notes


def _config(values: dict[str, Any], path: Path) -> AlbertConfig:
    if values.get("model_type", "albert") != "albert":
        raise InputError(f"{path} must describe an ALBERT. Received model_type {values['model_type']!r}.")
    if values.get("position_embedding_type", "absolute") != "absolute":
        raise InputError(f"{path}: ALBERT has only absolute position embeddings.")
    fields = {ours: values.get(theirs, default) for ours, (theirs, default) in _FIELDS.items()}
    if not isinstance(fields["hidden_act"], str) or fields["hidden_act"] not in _ACTIVATIONS:
        raise InputError(
            f"{path}: `hidden_act` must be one of {', '.join(_ACTIVATIONS)}. Received {fields['hidden_act']!r}."
        )
    fields["hidden_act"] = _ACTIVATIONS[fields["hidden_act"]]
    try:
        return AlbertConfig.from_dict(fields)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _read_arrays(folder: Path, weight_file: str | None) -> tuple[Path, dict[str, np.ndarray]]:
    readers = {_SAFETENSORS: _read_safetensors, _PYTORCH: read_pytorch}
    for name in [weight_file] if weight_file else WEIGHT_FILES:
        path, index, read = folder / name, folder / f"{name}.index.json", readers[name]
        if path.exists():
            return path, read(path)
        if index.exists():
            arrays: dict[str, np.ndarray] = {}
            for shard in _shards(index):
                arrays |= read(shard)
            return index, arrays
    raise InputError(f"{folder} holds neither {_SAFETENSORS} nor {_PYTORCH}, as one file or in shards.")


def _shards(index: Path) -> list[Path]:
    weight_map = read_json_object(index).get("weight_map")
    files = list(weight_map.values()) if isinstance(weight_map, dict) else []
    shards = []
    for name in dict.fromkeys(map(str, files)):
        if Path(name).name != name or "\0" in name:
            raise InputError(f"{index} must name files beside it. Received {name!r}.")
        if not (index.parent / name).is_file():
            raise InputError(f"{index} names {name}, which does not exist.")
        shards.append(index.parent / name)
    if not shards:
        raise InputError(f"{index} names no files under `weight_map`.")
    return shards


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    return read_safetensors(path)[0]


def _with_prefix(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """AlbertModel without heads is stored without the prefix that it has inside the models with heads."""
    if any(name.startswith("albert.") for name in arrays):
        return arrays
    return {f"albert.{name}": array for name, array in arrays.items()}


def _without_copies(arrays: dict[str, np.ndarray], path: Path) -> dict[str, np.ndarray]:
    arrays = {name: array for name, array in arrays.items() if name != _COUNTER}
    for copy, original in _COPIES.items():
        if copy not in arrays:
            continue
        array = arrays.pop(copy)
        if not np.array_equal(arrays.setdefault(original, array), array):
            raise InputError(
                f"{path}: {copy} must equal {original}, to which ALBERT ties it. Received other values."
            )
    return arrays
