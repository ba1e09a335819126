"""What a path is: the format is recognised, never asked."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from albert_tf.pretrained import archives, exported, garden, hub, huggingface, kerashub, own, tf1
from albert_tf.pretrained.stored import StoredModel, check_vocabulary
from data_prep.errors import InputError
from data_prep.files import read_json_object

READABLE = (
    "a run of ours, of fine-tuning too, or a checkpoint in it, a .keras file of ours, what `albert convert` "
    "wrote, Google's TF1 checkpoint (folder, prefix or .tar.gz), a TF-Hub SavedModel, an export of ours of "
    f"--kind=encoder, a Hugging Face or KerasHub directory, or {hub.PREFIX}OWNER/NAME"
)


def read(source: str | Path) -> StoredModel:
    """Reads a model in any format.

    Args:
      source: `READABLE` says what.

    Raises:
      InputError: it is none of these, or the files are damaged or do not fit each other.
    """
    with _local(source) as path:
        try:
            stored = _read_local(path)
            check_vocabulary(stored)
        except (InputError, OSError) as error:
            reason = str(error) if isinstance(error, InputError) else f"{source} cannot be read: {error}."
            # In the user's words: the archive, not where it was unpacked.
            raise InputError(reason.replace(str(path), str(source))) from None
        return stored


@contextlib.contextmanager
def _local(source: str | Path) -> Iterator[Path]:
    """The files on this machine: downloaded or unpacked where they must be."""
    if str(source).startswith(hub.PREFIX):
        yield hub.download(str(source))
        return
    path = Path(source)
    if path.is_file() and path.name.endswith(archives.SUFFIXES):
        with tempfile.TemporaryDirectory() as temporary:
            archives.unpack(path, Path(temporary))
            yield _only_folder(Path(temporary))
    else:
        yield path


def _only_folder(folder: Path) -> Path:
    """Archives hold one folder, or the files themselves."""
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _read_local(path: Path) -> StoredModel:
    if path.is_dir():
        return _read_folder(path)
    if path.suffix == ".keras" and path.is_file():
        return own.read_keras(path)
    if (
        path.name in (huggingface.SAFETENSORS, huggingface.PYTORCH, huggingface.CONFIG_FILE)
        and path.is_file()
    ):
        return _read_folder(path.parent)
    prefix = path.with_name(path.name.removesuffix(".index"))
    if prefix.with_name(f"{prefix.name}.index").exists():
        return _read_checkpoint(prefix)
    if not path.exists():
        raise InputError(f"There is no checkpoint at {path}. A model is {READABLE}.")
    raise InputError(f"{path} is no model that can be read. A model is {READABLE}.")


def _read_folder(folder: Path) -> StoredModel:
    if (folder / own.MODEL_FILE).exists():
        return own.read_keras(folder / own.MODEL_FILE)
    if (seed := own.best_seed(folder)) and (seed / own.MODEL_FILE).exists():
        return own.read_keras(seed / own.MODEL_FILE)
    if own.is_run(folder):
        return own.read_run(folder, folder)
    if (folder / "saved_model.pb").exists():
        return _read_saved_model(folder)
    if (folder / "config.json").exists():
        config = read_json_object(folder / "config.json")
        is_keras = "registered_name" in config
        return kerashub.read_kerashub(folder) if is_keras else huggingface.read_huggingface(folder)
    prefixes = sorted(folder.glob("*.index"))
    if not prefixes:
        raise InputError(f"There is no model in the folder {folder}. A model is {READABLE}.")
    if len(prefixes) > 1:
        latest = tf.train.latest_checkpoint(str(folder))
        if latest is None:
            names = ", ".join(path.stem for path in prefixes)
            raise InputError(f"{folder} holds several checkpoints: {names}. Name one.")
        return _read_checkpoint(Path(latest))
    return _read_checkpoint(prefixes[0].with_suffix(""))


def _read_checkpoint(prefix: Path) -> StoredModel:
    if own.is_run(prefix):
        return own.read_run(prefix, prefix.parent.parent)
    return tf1.read_tf1(prefix, prefix.parent)


def _read_saved_model(folder: Path) -> StoredModel:
    prefix = folder / "variables" / "variables"
    try:
        names = tf.train.load_checkpoint(str(prefix)).get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        reason = str(getattr(error, "message", error)).splitlines()[0]
        raise InputError(f"The SavedModel {folder} cannot be read: {reason}") from None
    if garden.OBJECT_GRAPH in names:
        own_one = exported.is_export(folder)
        return exported.read_export(folder) if own_one else garden.read_garden(folder)
    return tf1.read_tf1(prefix, folder / "assets")
