"""Folders of sentence-transformers: modules.json beside a Hugging Face directory says how texts become vectors."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Any, get_args

import numpy as np
import safetensors.numpy
from msgspec import Meta

from albert_tf.checkpoints.pytorch_files import read_pytorch
from albert_tf.checkpoints.safetensors_files import read_safetensors
from albert_tf.checkpoints.sentence_vectors import MEAN, Pooling, SentenceVectors, VectorDense
from albert_tf.checkpoints.stored import StoredModel, read_optional_json
from data_prep.errors import InputError
from data_prep.files import as_record, read_json, write_json
from data_prep.tokenizers.vocabulary import TOKENIZER_CONFIG

MODULES_FILE = "modules.json"
_PROMPTS_FILE = "config_sentence_transformers.json"
_TRANSFORMER_FILES = ("sentence_bert_config.json", "sentence_albert_config.json")
_OLD_MODE = re.compile("pooling_mode_(.+?)(?:_tokens?)?")  # "pooling_mode_cls_token": true
_CLASSES = "sentence_transformers.models."  # where all versions find them
_POOLINGS = tuple(mode for mode in get_args(Pooling) if mode != "pooled")
# torch.nn's class -> Keras' name.
_ACTIVATIONS = {"Tanh": "tanh", "Identity": "linear", "ReLU": "relu", "GELU": "gelu", "Sigmoid": "sigmoid"}
_TORCH = {
    name: f"torch.nn.modules.{'linear' if name == 'Identity' else 'activation'}.{name}"
    for name in _ACTIVATIONS
}
_VECTOR = "sentence_embedding"  # what a module reads and writes if its config.json names nothing else


class _OtherError(Exception):
    """Describes a module, or an option of one, that nothing here computes."""


@dataclass(frozen=True)
class _Transformer:
    """The fields of sentence_bert_config.json that matter here."""

    max_seq_length: Annotated[int, Meta(ge=2)] | None = None
    do_lower_case: bool = False
    transformer_task: str = "feature-extraction"


def transformer_folder(folder: Path) -> Path:
    """The folder of the Hugging Face directory: that of modules.json itself, or one in it, "0_Transformer"."""
    paths = [path for name, path in _modules(folder) if name == "Transformer"]
    return paths[0] if paths else folder


def lowers_case(folder: Path) -> bool:
    """Whether texts become lower case, whatever the tokenizer's files say; `folder` is `transformer_folder`'s."""
    return _transformer(folder).do_lower_case


def read_sentence_vectors(folder: Path) -> SentenceVectors | None:
    """What the modules of a folder say; None without modules.json.

    What nothing here computes becomes `SentenceVectors.unsupported`: all else that the model is for goes on.

    Raises:
      InputError: a file is missing or damaged, or names a folder elsewhere.
    """
    if not (folder / MODULES_FILE).exists():
        return None
    how, others, left = MEAN, [], list(_READERS)
    for name, path in _modules(folder):
        try:
            if name not in left:
                raise _OtherError(name if name not in _READERS else f"{name} in this order")
            left = left[left.index(name) + 1 :]
            how = dataclasses.replace(how, **_READERS[name](path))
        except _OtherError as other:
            others.append(str(other))
    if "Pooling" in left and not others:
        others = ["vectors without Pooling"]
    prompts = read_optional_json(folder / _PROMPTS_FILE)
    named = prompts.get("prompts")
    if prompt := named.get(prompts.get("default_prompt_name")) if isinstance(named, dict) else None:
        others.append(f"the prompt {prompt!r} before every text")
    return dataclasses.replace(how, unsupported=", ".join(others))


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """The name of each module's class and its folder; a class from elsewhere has its whole name."""
    file = folder / MODULES_FILE
    modules = read_json(file) if file.exists() else []
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise InputError(f"{file} must be a list of modules. It is not.")
    found = []
    for module in modules:
        kind, path = str(module.get("type")), str(module.get("path") or "")
        if PurePath(path).is_absolute() or ".." in PurePath(path).parts or "\0" in path:
            raise InputError(f"{file} must name folders beside it. Received {path!r}.")
        package, _, name = kind.rpartition(".")
        found.append((name if package.startswith("sentence_transformers") else kind, folder / path))
    return found


def _transformer(folder: Path) -> _Transformer:
    file = next((folder / name for name in _TRANSFORMER_FILES if (folder / name).exists()), None)
    return as_record(_Transformer, read_optional_json(file), file) if file else _Transformer()


def _read_transformer(folder: Path) -> dict[str, Any]:
    values = _transformer(folder)
    if values.transformer_task != "feature-extraction":
        raise _OtherError(f"Transformer for {values.transformer_task}")
    longest = values.max_seq_length or read_optional_json(folder / TOKENIZER_CONFIG).get("model_max_length")
    # Some files write a very large number for no limit.
    return {"max_seq_length": longest if isinstance(longest, int) and 2 <= longest < 1 << 31 else None}


def _read_pooling(folder: Path) -> dict[str, Any]:
    values = read_optional_json(folder / "config.json")
    old = [match[1] for key, value in values.items() if (match := _OLD_MODE.fullmatch(key)) and value]
    modes = values.get("pooling_mode") or old or ["mean"]
    modes = modes if isinstance(modes, list) else [modes]
    if len(modes) > 1 or modes[0] not in _POOLINGS:
        raise _OtherError(f"Pooling ({', '.join(map(str, modes))})")
    return {"pooling": modes[0]}


def _read_dense(folder: Path) -> dict[str, Any]:
    values = read_optional_json(folder / "config.json")
    _check_names(values, "Dense")
    activation = str(values.get("activation_function", _TORCH["Tanh"])).rpartition(".")
    if activation[2] not in _ACTIVATIONS or not activation[0].startswith("torch.nn"):
        raise _OtherError(f"Dense ({''.join(activation)})")
    if values.get("use_residual"):
        raise _OtherError("Dense (use_residual)")
    file = folder / "model.safetensors"
    arrays = read_safetensors(file)[0] if file.exists() else read_pytorch(folder / "pytorch_model.bin")
    if (weight := arrays.get("linear.weight")) is None or weight.ndim != 2:
        raise InputError(f"The Dense in {folder} must hold the matrix linear.weight. It does not.")
    bias = np.asarray(arrays.get("linear.bias", np.zeros(len(weight))), np.float32)
    if bias.shape != weight.shape[:1]:
        raise InputError(f"linear.bias in {folder} must have {len(weight)} numbers. Received {bias.shape}.")
    return {"dense": VectorDense(weight.T.astype(np.float32), bias, _ACTIVATIONS[activation[2]])}


def _read_normalize(folder: Path) -> dict[str, Any]:
    _check_names(read_optional_json(folder / "config.json"), "Normalize")
    return {"normalize": True}


def _check_names(values: Mapping[str, Any], module: str) -> None:
    for key in ("module_input_name", "module_output_name"):
        if (name := values.get(key) or _VECTOR) != _VECTOR:
            raise _OtherError(f"{module} ({key} {name})")


# In the order in which a text passes them.
_READERS = {
    "Transformer": _read_transformer,
    "Pooling": _read_pooling,
    "Dense": _read_dense,
    "Normalize": _read_normalize,
}


def write_sentence_vectors(stored: StoredModel, folder: Path) -> None:
    """Writes the modules beside a Hugging Face directory, for `SentenceTransformer(folder)`.

    Raises:
      InputError: sentence-transformers has no such module.
    """
    how = stored.sentence_vectors
    assert how
    how.check()
    dense, pooling = how.dense, how.pooling
    if pooling == "pooled":  # the pooler is a dense layer on the vector of [CLS]
        if dense or "pooler" not in stored.parts:
            raise InputError(
                "sentence-transformers has no pooled output. It can be written as the vector of [CLS] and one "
                f"dense layer, if the model has a pooler and no other layer follows. Received {how}."
            )
        pooling = "cls"
        dense = VectorDense(stored.weights["pooler/kernel"], stored.weights["pooler/bias"], "tanh")
    H, longest = stored.config.hidden_size, stored.config.max_position_embeddings
    longest = min(how.max_seq_length or longest, longest)
    write_json(folder / _TRANSFORMER_FILES[0], {"max_seq_length": longest, "do_lower_case": False})
    configs: dict[str, dict[str, Any]] = {"Transformer": {}}
    configs["Pooling"] = {"word_embedding_dimension": H, "pooling_mode": pooling}
    if dense:
        torch_name = next(
            (_TORCH[name] for name, ours in _ACTIVATIONS.items() if ours == dense.activation), None
        )
        if torch_name is None:
            raise InputError(
                f"The activation of a dense layer in a folder of sentence-transformers must be one of "
                f"{', '.join(_ACTIVATIONS.values())}. Received {dense.activation}."
            )
        sizes = dict(zip(("in_features", "out_features"), dense.kernel.shape, strict=True))
        configs["Dense"] = {**sizes, "bias": True, "activation_function": torch_name}
    if how.normalize:
        configs["Normalize"] = {}
    modules = []
    for number, (name, values) in enumerate(configs.items()):
        path = f"{number}_{name}" if number else ""
        if number:
            (folder / path).mkdir()
            write_json(folder / path / "config.json", values)
        modules.append({"idx": number, "name": str(number), "path": path, "type": _CLASSES + name})
        if name == "Dense" and dense:
            arrays = {"linear.weight": np.ascontiguousarray(dense.kernel.T), "linear.bias": dense.bias}
            safetensors.numpy.save_file(arrays, folder / path / "model.safetensors", {"format": "pt"})
            (folder / path / "model.safetensors").chmod((folder / path / "config.json").stat().st_mode)
    write_json(folder / MODULES_FILE, modules)
