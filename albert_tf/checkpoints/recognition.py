"""Finds out what format a model's files have, and reads them; nobody has to name the format."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from albert_tf.checkpoints import huggingface, kerashub, own, savedmodels, tf1
from albert_tf.checkpoints.downloads import PORTABLE_FACTS
from albert_tf.checkpoints.sources import READABLE, local_files
from albert_tf.checkpoints.stored import StoredModel, check_vocabulary
from albert_tf.config import AlbertConfig
from data_prep.errors import InputError
from data_prep.files import read_json_object, refuse_damage


def read(source: str | Path, otherwise: AlbertConfig | None = None) -> StoredModel:
    """Reads a model in any format.

    Args:
      source: one of `sources.READABLE`.
      otherwise: the configuration of a TF1 checkpoint that has none beside it.

    Raises:
      InputError: `source` is none of these, or the files are damaged or do not fit each other.
    """
    with named_files(source) as path:
        stored = _read_path(path, otherwise)
        check_vocabulary(stored)
        return stored


def read_config(source: str | Path) -> AlbertConfig:
    """The configuration of a model in any format.

    Our own files are not loaded for it: a model starts TensorFlow, after which devices can no longer be set.

    Raises:
      InputError: as `read`.
    """
    with named_files(source) as path:
        return own.read_config(path) or _read_path(path, None).config


@contextlib.contextmanager
def named_files(source: str | Path) -> Iterator[Path]:
    """As `local_files`; errors within the context name what the user named, such as the archive."""
    with local_files(source) as path:
        try:
            yield path
        except (InputError, OSError) as error:
            reason = str(error) if isinstance(error, InputError) else f"{source} cannot be read: {error}."
            is_elsewhere = path != Path(source)  # unpacked or downloaded
            raise InputError(reason.replace(str(path), str(source)) if is_elsewhere else reason) from None


def _read_path(path: Path, otherwise: AlbertConfig | None) -> StoredModel:
    if file := own.find_model_file(path):
        return own.read_keras(file)
    if path.is_dir():
        return _read_folder(path, otherwise)
    if path.name in huggingface.WEIGHT_FILES and path.is_file():
        return huggingface.read_huggingface(path.parent, path.name)
    if path.name == "config.json" and path.is_file():
        return _read_folder(path.parent, otherwise)
    prefix = path.with_name(path.name.removesuffix(".index"))
    if prefix.with_name(f"{prefix.name}.index").exists():
        return _read_checkpoint(prefix, otherwise)
    raise InputError(f"{path} is not a model that can be read. A model is {READABLE}.")


def _read_folder(folder: Path, otherwise: AlbertConfig | None) -> StoredModel:
    if own.is_run(folder):
        return own.read_run(folder)
    if (folder / PORTABLE_FACTS).exists():
        raise InputError(
            f"{folder} is a portable model, which `albert_tf.load_portable`, `albert predict`, `albert embed` and "
            "`albert evaluate` run. It cannot be read; name the model that it was exported from, which its "
            "README.md names."
        )
    if (folder / "saved_model.pb").exists():
        return _read_savedmodel(folder, otherwise)
    if (folder / "config.json").exists():
        is_keras = "registered_name" in read_json_object(folder / "config.json")
        return kerashub.read_kerashub(folder) if is_keras else huggingface.read_huggingface(folder)
    prefixes = sorted(folder.glob("*.index"))
    if not prefixes:
        raise InputError(f"There is no model in the folder {folder}. A model is {READABLE}.")
    if len(prefixes) == 1:
        return _read_checkpoint(prefixes[0].with_suffix(""), otherwise)
    with refuse_damage(folder / "checkpoint", "a list of checkpoints"):
        latest = tf.train.latest_checkpoint(str(folder))
    if latest is None or Path(latest).parent != folder:  # the file may name one elsewhere
        names = ", ".join(path.stem for path in prefixes)
        raise InputError(f"{folder} holds several checkpoints: {names}. Name one.")
    return _read_checkpoint(Path(latest), otherwise)


def _read_checkpoint(prefix: Path, otherwise: AlbertConfig | None) -> StoredModel:
    return own.read_run(prefix) if own.is_run(prefix) else tf1.read_tf1(prefix, prefix.parent, otherwise)


def _read_savedmodel(folder: Path, otherwise: AlbertConfig | None) -> StoredModel:
    """A SavedModel of TF2, or of TF1, which has no object graph."""
    prefix = folder / "variables" / "variables"
    with refuse_damage(folder, "a complete SavedModel"):
        names = tf.train.load_checkpoint(str(prefix)).get_variable_to_shape_map()
    if savedmodels.OBJECT_GRAPH in names:
        return savedmodels.read_savedmodel(folder)
    return tf1.read_tf1(prefix, folder / "assets", otherwise)
