"""`open_model`: one handle for a model on disk, whose format is detected.

The handle is a `StoredModel`: configuration, weights, vocabulary, normalization, and the head of a task.
"""

import contextlib
import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path

import tensorflow as tf

from albert_tf.checkpoints import huggingface, keras_models, kerashub, runs, savedmodels, tf1
from albert_tf.checkpoints.downloads import PORTABLE_FACTS
from albert_tf.checkpoints.names import as_groups
from albert_tf.checkpoints.run_files import differences
from albert_tf.checkpoints.sentence_transformers import transformer_folder
from albert_tf.checkpoints.sources import READABLE, local_files
from albert_tf.checkpoints.stored import StoredModel, check_vocabulary
from albert_tf.config import AlbertConfig
from data_prep.errors import InputError
from data_prep.files import read_json_object, refuse_damage

# These may differ between a checkpoint and the model that takes its weights, since they only matter in training.
_FREE = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")


def open_model(
    source: str | Path,
    config: AlbertConfig | str | Path | None = None,
    may_differ: Collection[str] = (),
    *,
    quantized: bool = False,
) -> StoredModel:
    """Reads a model in any format.

    Args:
      source: one of `sources.READABLE`.
      config: the configuration that the model must have, or its albert_config.json; a TF1 checkpoint may have none
        itself. Its dropout is the one to use.
      may_differ: the fields in which the model may have other values, which it keeps.
      quantized: whether a fine-tuned model may be one that Keras quantized, which only predicts.

    Raises:
      InputError: `source` is none of these, or the files are damaged or do not fit each other or `config`.
    """
    if config is not None and not isinstance(config, AlbertConfig):
        config = AlbertConfig.from_json_file(config)
    with named_files(source) as path:
        stored = _read_path(path, config)
        check_vocabulary(stored)
        if stored.is_quantized and not (quantized and stored.head):
            raise InputError(
                "After Keras' `quantize`, a fine-tuned model can only be exported for its task, and predict. "
                f"Received {stored.path}; name the model as it was before."
            )
    if config is None:
        return stored
    check_same_model(stored.config, config, source, may_differ)
    dropout = {name: getattr(config, name) for name in _FREE}
    return dataclasses.replace(stored, config=dataclasses.replace(stored.config, **dropout))


def read_config(source: str | Path) -> AlbertConfig:
    """The configuration of a model in any format.

    The weights of our own files are not loaded: that starts TensorFlow, after which devices can no longer be set.

    Raises:
      InputError: as `open_model`.
    """
    with named_files(source) as path:
        return _config_of_ours(path) or _read_path(path, None).config


def _config_of_ours(path: Path) -> AlbertConfig | None:
    """The configuration of a run, a checkpoint in one or a .keras file, without its weights; None for others."""
    if file := keras_models.find_model_file(path):
        return keras_models.describe(file).shape
    return runs.read_run_config(path) if runs.is_run(path) else None


@contextlib.contextmanager
def named_files(source: str | Path) -> Iterator[Path]:
    """Like `local_files`; errors in the block name the source as the user wrote it, for instance the archive."""
    with local_files(source) as path:
        try:
            yield path
        except (InputError, OSError) as error:
            reason = str(error) if isinstance(error, InputError) else f"{source} cannot be read: {error}."
            is_elsewhere = path != Path(source)  # unpacked or downloaded
            raise InputError(reason.replace(str(path), str(source)) if is_elsewhere else reason) from None


def _read_path(path: Path, default_config: AlbertConfig | None) -> StoredModel:
    if file := keras_models.find_model_file(path):
        return keras_models.read_keras(file)
    if path.is_dir():
        return _read_folder(path, default_config)
    if path.name in huggingface.WEIGHT_FILES and path.is_file():
        return huggingface.read_huggingface(path.parent, path.name)
    if path.name == "config.json" and path.is_file():
        return _read_folder(path.parent, default_config)
    prefix = path.with_name(path.name.removesuffix(".index"))
    if prefix.with_name(f"{prefix.name}.index").exists():
        return _read_checkpoint(prefix, default_config)
    raise InputError(f"{path} is not a model that can be read. A model is {READABLE}.")


def _read_folder(folder: Path, default_config: AlbertConfig | None) -> StoredModel:
    if runs.is_run(folder):
        return runs.read_run(folder)
    if (folder / PORTABLE_FACTS).exists():
        raise InputError(
            f"{folder} is a portable model, which `albert_tf.load_portable`, `albert predict`, `albert embed` and "
            "`albert evaluate` run. It cannot be read; name the model that it was exported from, which its "
            "README.md names."
        )
    if (folder / "saved_model.pb").exists():
        return _read_savedmodel(folder, default_config)
    if transformer_folder(folder) != folder:  # an early folder of sentence-transformers
        return huggingface.read_huggingface(folder)
    if (folder / "config.json").exists():
        is_keras = "registered_name" in read_json_object(folder / "config.json")
        return kerashub.read_kerashub(folder) if is_keras else huggingface.read_huggingface(folder)
    prefixes = sorted(folder.glob("*.index"))
    if not prefixes:
        raise InputError(f"There is no model in the folder {folder}. A model is {READABLE}.")
    if len(prefixes) == 1:
        return _read_checkpoint(prefixes[0].with_suffix(""), default_config)
    with refuse_damage(folder / "checkpoint", "a list of checkpoints"):
        latest = tf.train.latest_checkpoint(str(folder))
    if latest is None or Path(latest).parent != folder:  # the file may name one elsewhere
        names = ", ".join(path.stem for path in prefixes)
        raise InputError(f"{folder} holds several checkpoints: {names}. Name one.")
    return _read_checkpoint(Path(latest), default_config)


def _read_checkpoint(prefix: Path, default_config: AlbertConfig | None) -> StoredModel:
    return (
        runs.read_run(prefix) if runs.is_run(prefix) else tf1.read_tf1(prefix, prefix.parent, default_config)
    )


def _read_savedmodel(folder: Path, default_config: AlbertConfig | None) -> StoredModel:
    """A SavedModel of TF2, or of TF1, which has no object graph."""
    prefix = folder / "variables" / "variables"
    with refuse_damage(folder, "a complete SavedModel"):
        names = tf.train.load_checkpoint(str(prefix)).get_variable_to_shape_map()
    if savedmodels.OBJECT_GRAPH in names:
        return savedmodels.read_savedmodel(folder)
    return tf1.read_tf1(prefix, folder / "assets", default_config)


def check_same_model(
    found: AlbertConfig, expected: AlbertConfig, source: str | Path, may_differ: Collection[str] = ()
) -> None:
    """Raises InputError if configurations differ in more than dropout, initialization and what `may_differ`."""
    if found.parameter_sharing != expected.parameter_sharing and "none" in (
        found.parameter_sharing,
        expected.parameter_sharing,
    ):
        found, expected = as_groups(found), as_groups(expected)  # sharing nothing is one group for each layer
    compared = {
        name: value for name, value in expected.to_dict().items() if name not in (*_FREE, *may_differ)
    }
    if different := differences(found.to_dict(), compared):
        hint = ""
        if any(name.startswith("max_position_embeddings") for name in different):
            hint = " --resize_positions repeats the rows of the position table or cuts them off."
        raise InputError(f"{source} does not match this configuration: {'; '.join(different)}.{hint}")
