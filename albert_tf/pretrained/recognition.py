"""Finds out what format a path or an address has, and reads it; nobody has to name the format."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import tensorflow as tf

from albert_tf.pretrained import archives, huggingface, kerashub, own, savedmodels, tf1
from albert_tf.pretrained.stored import StoredModel, check_vocabulary
from data_prep.errors import InputError, first_line
from data_prep.files import read_json_object

HUB_PREFIX = "hf://"  # an address on the Hugging Face Hub
READABLE = (
    "a run of ours, pretraining or fine-tuning, or a checkpoint in it, a .keras file of ours, what `albert "
    "convert` wrote, Google's TF1 checkpoint (folder, prefix or .tar.gz), a TF-Hub SavedModel, an export of ours "
    f"with --kind=encoder, a Hugging Face or KerasHub directory, or {HUB_PREFIX}OWNER/NAME"
)
_HUB_FILES = ["*.json", "spiece.model", "vocab.txt", "assets/tokenizer/*"]
_HUB_WEIGHTS = ["model*.safetensors", "model.weights.h5"]
_OLD_HUB_WEIGHTS = ["pytorch_model*.bin"]


def read(source: str | Path) -> StoredModel:
    """Reads a model in any format.

    Args:
      source: one of `READABLE`.

    Raises:
      InputError: `source` is none of these, or the files are damaged or do not fit each other.
    """
    with _local_files(source) as path:
        try:
            stored = _read_path(path)
            check_vocabulary(stored)
        except (InputError, OSError) as error:
            reason = str(error) if isinstance(error, InputError) else f"{source} cannot be read: {error}."
            # Name what the user named: the archive, not the folder that it was unpacked into.
            raise InputError(reason.replace(str(path), str(source))) from None
        return stored


@contextlib.contextmanager
def _local_files(source: str | Path) -> Iterator[Path]:
    """The files on this machine, downloaded or unpacked if need be."""
    path = Path(source)
    if str(source).startswith(HUB_PREFIX):
        yield _download(str(source))
    elif path.is_file() and path.name.endswith(archives.SUFFIXES):
        with tempfile.TemporaryDirectory() as temporary:
            archives.unpack(path, Path(temporary))
            inside = list(Path(temporary).iterdir())
            # Archives hold one folder, or the files themselves.
            yield inside[0] if len(inside) == 1 and inside[0].is_dir() else Path(temporary)
    else:
        yield path


def _download(address: str) -> Path:
    """Downloads the needed files of `hf://OWNER/NAME` or `hf://OWNER/NAME@REVISION`, or finds them in the cache.

    HF_ENDPOINT, HF_HOME, HF_TOKEN and HF_HUB_OFFLINE mean what they mean to huggingface_hub.

    Returns:
      The folder in the cache.

    Raises:
      InputError: there is no such repository, or it cannot be reached.
    """
    import huggingface_hub
    from huggingface_hub import errors

    repository, _, revision = address.removeprefix(HUB_PREFIX).partition("@")
    owner, _, name = repository.partition("/")
    if not owner or not name or "/" in name:
        raise InputError(f"An address on the Hub is {HUB_PREFIX}OWNER/NAME. Received {address}.")

    # The HTTP library underneath has errors of its own, and differs between releases.
    http_errors = cast(tuple[type[Exception], ...], errors.HfHubHTTPError.__bases__)
    failures: tuple[type[Exception], ...] = (OSError, errors.HFValidationError, *http_errors)

    def snapshot(patterns: list[str]) -> Path:
        return Path(
            huggingface_hub.snapshot_download(repository, revision=revision or None, allow_patterns=patterns)
        )

    try:
        folder = snapshot(_HUB_FILES + _HUB_WEIGHTS)
        if not any(match for pattern in _HUB_WEIGHTS for match in folder.glob(pattern)):
            folder = snapshot(_HUB_FILES + _OLD_HUB_WEIGHTS)
    except failures as error:
        raise InputError(f"{address} cannot be downloaded: {first_line(error)}") from None
    return folder


def _read_path(path: Path) -> StoredModel:
    if path.is_dir():
        return _read_folder(path)
    if path.suffix == ".keras" and path.is_file():
        return own.read_keras(path)
    if path.name in huggingface.FILES and path.is_file():
        return _read_folder(path.parent)
    prefix = path.with_name(path.name.removesuffix(".index"))
    if prefix.with_name(f"{prefix.name}.index").exists():
        return _read_checkpoint(prefix)
    if not path.exists():
        raise InputError(f"There is no checkpoint at {path}. A model is {READABLE}.")
    raise InputError(f"{path} is not a model that can be read. A model is {READABLE}.")


def _read_folder(folder: Path) -> StoredModel:
    if (folder / own.MODEL_FILE).exists():
        return own.read_keras(folder / own.MODEL_FILE)
    if (seed := own.best_seed_folder(folder)) and (seed / own.MODEL_FILE).exists():
        return own.read_keras(seed / own.MODEL_FILE)
    if own.is_run(folder):
        return own.read_run(folder)
    if (folder / "saved_model.pb").exists():
        return _read_savedmodel(folder)
    if (folder / "config.json").exists():
        is_keras = "registered_name" in read_json_object(folder / "config.json")
        return kerashub.read_kerashub(folder) if is_keras else huggingface.read_huggingface(folder)
    prefixes = sorted(folder.glob("*.index"))
    if not prefixes:
        raise InputError(f"There is no model in the folder {folder}. A model is {READABLE}.")
    if len(prefixes) == 1:
        return _read_checkpoint(prefixes[0].with_suffix(""))
    latest = tf.train.latest_checkpoint(str(folder))
    if latest is None:
        names = ", ".join(path.stem for path in prefixes)
        raise InputError(f"{folder} holds several checkpoints: {names}. Name one.")
    return _read_checkpoint(Path(latest))


def _read_checkpoint(prefix: Path) -> StoredModel:
    return own.read_run(prefix) if own.is_run(prefix) else tf1.read_tf1(prefix, prefix.parent)


def _read_savedmodel(folder: Path) -> StoredModel:
    """A SavedModel of TF2, or of TF1, which has no object graph."""
    prefix = folder / "variables" / "variables"
    try:
        names = tf.train.load_checkpoint(str(prefix)).get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise InputError(f"The SavedModel {folder} cannot be read: {first_line(error)}") from None
    if savedmodels.OBJECT_GRAPH in names:
        return savedmodels.read_savedmodel(folder)
    return tf1.read_tf1(prefix, folder / "assets")
