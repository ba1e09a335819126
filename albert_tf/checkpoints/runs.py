"""Reads runs of `albert pretrain`: chooses a checkpoint, and returns the model in it."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.checkpoint_files import checksums_of, damage, newest_intact, say_on_stderr
from albert_tf.checkpoints.keras_files import check_size
from albert_tf.checkpoints.run_files import CHECKPOINTS, MANIFEST_FILE, read_best_step
from albert_tf.checkpoints.stored import StoredModel, find_vocabulary
from albert_tf.checkpoints.weights import to_ours
from albert_tf.config import CONFIG_FILE, AlbertConfig
from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest
from data_prep.files import refuse_damage
from data_prep.tokenizers.vocabulary import Vocabulary

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_SEEDS = "seeds."  # prefix of variables that belong to the run, not to the model


def is_run(path: Path) -> bool:
    """Whether a path is the folder of a pretraining run, or a checkpoint in one."""
    if path.is_dir():
        return (path / CHECKPOINTS).is_dir()
    has_index = path.with_name(f"{path.name}.index").exists()
    return has_index and path.parent.name == CHECKPOINTS and (path.parent.parent / CONFIG_FILE).exists()


def read_run(path: Path) -> StoredModel:
    """Reads the checkpoint that `path` names, or in a run's folder the one that `find_checkpoint` takes.

    Raises:
      InputError: there is no checkpoint, or it does not fit the run's configuration.
    """
    run = _run_folder(path)
    config = AlbertConfig.from_json_file(run / CONFIG_FILE)
    prefix = Path(find_checkpoint(path))
    size = sum(file.stat().st_size for file in prefix.parent.glob(f"{prefix.name}.data-*"))
    check_size(config, size, prefix)
    arrays = {
        name.partition(".")[2].replace(".", "/"): array  # without the name of the model
        for name, array in saved_arrays(str(prefix), "weights").items()
        if not name.startswith(_SEEDS)
    }
    weights = to_ours(arrays, config, "ours", f"The checkpoint {prefix}")
    notes: tuple[str, ...] = ()
    if path.is_dir() and (best := read_best_step(run)) is not None:
        which = "the best on held-out text" if prefix.name == f"ckpt-{best}" else "the last one"
        notes = (
            f"these are the weights of {prefix.name}, {which}; to take others, name a checkpoint of the run",
        )
    return StoredModel("run", prefix, config, weights, read_run_vocabulary(path), notes)


def read_run_config(path: Path) -> AlbertConfig | None:
    """The configuration in a run's folder, or in that of a checkpoint, if the folder holds one."""
    file = _run_folder(path) / CONFIG_FILE
    return AlbertConfig.from_json_file(file) if file.exists() else None


def read_run_vocabulary(path: Path) -> Vocabulary | None:
    """The vocabulary of a run's folder or checkpoint, if the folder holds one.

    Raises:
      InputError: the vocabulary is not the one that the run's examples were made with.
    """
    run = _run_folder(path)
    manifest = run / MANIFEST_FILE
    if not manifest.exists():
        return find_vocabulary(run)
    facts = Manifest.read(manifest).vocabulary
    vocabulary = find_vocabulary(run, default=facts.normalization)
    if vocabulary and vocabulary.sha256 != facts.sha256:
        raise InputError(
            f"{vocabulary.file} must be the vocabulary that the run's examples were made with. Its SHA-256 is not "
            f"the one in {manifest.name}; copy the right one into the run's folder."
        )
    return vocabulary


def find_checkpoint(path: str | Path) -> str:
    """The path prefix of an intact checkpoint.

    Args:
      path: a checkpoint; or a run's folder, for its checkpoint with the best held-out loss if one is recorded, and
        otherwise the newest one; or a folder of checkpoints, for the newest one.

    Raises:
      InputError: there is none, or `path` is damaged.
    """
    path = Path(path)
    if path.name and path.with_name(path.name + ".index").exists():  # "." has no name
        reason = damage(path) if checksums_of(path).exists() else None  # TensorFlow's own have no checksums
        if reason:
            raise InputError(f"The checkpoint {path} is damaged: {reason}. Use another one.")
        return str(path)
    if best := best_checkpoint(path):
        return str(best)
    for folder in (path / CHECKPOINTS, path):
        if newest := newest_intact(folder, say_on_stderr):
            return newest[1]
    raise InputError(
        f"There is no checkpoint at {path}. Name a run's folder (its --output_dir) or a checkpoint in it, for "
        "instance RUN/checkpoints/ckpt-1000."
    )


def best_checkpoint(run: Path) -> Path | None:
    """The path prefix of the checkpoint with the best held-out loss of a run, if it is recorded and intact."""
    step = read_best_step(run)
    if step is None:
        return None
    prefix = run / CHECKPOINTS / f"ckpt-{step}"
    if reason := damage(prefix):
        say_on_stderr(f"the checkpoint with the best held-out loss is damaged ({reason}); using the last one")
        return None
    return prefix


def saved_arrays(prefix: str, part: str) -> dict[str, np.ndarray]:
    """The arrays of a part of a checkpoint, "weights" or "optimizer", by the variables' paths, with dots."""
    with refuse_damage(prefix, "a complete checkpoint"):
        reader = tf.train.load_checkpoint(prefix)
        keys = [k for k in reader.get_variable_to_shape_map() if k.startswith(part + "/") and _VALUE in k]
        return {
            key.removeprefix(part + "/").removesuffix(_VALUE).replace("..", "."): reader.get_tensor(key)
            for key in keys
        }


def _run_folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent.parent
