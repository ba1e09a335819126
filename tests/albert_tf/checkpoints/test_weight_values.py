"""Weights are finite floating-point numbers in every format, in the heads of tasks and in adapters too."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import safetensors
import safetensors.numpy
import tensorflow as tf

from albert_tf.checkpoints.checkpoint_files import write_checkpoint
from albert_tf.checkpoints.savedmodels import WEIGHTS
from albert_tf.checkpoints.tf1 import read_arrays
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.training.weights import by_name
from data_prep.errors import InputError
from tests.fuzz.readers import BY_NAME, pretrained_model

Change = Callable[[np.ndarray], np.ndarray]


def nan_in(array: np.ndarray) -> np.ndarray:
    return np.where(np.arange(array.size).reshape(array.shape) == 1, np.nan, array).astype(array.dtype)


def infinity_in(array: np.ndarray) -> np.ndarray:
    return np.where(np.arange(array.size).reshape(array.shape) == 1, np.inf, array).astype(array.dtype)


def too_large(array: np.ndarray) -> np.ndarray:
    return np.full(array.shape, 1e300)


CHANGES = {
    "NaN": (nan_in, "holds NaN or infinity"),
    "infinity": (infinity_in, "holds NaN or infinity"),
    "too large": (too_large, "holds NaN or infinity"),
    "integers": (lambda array: np.ones(array.shape, np.int32), "is int32"),
    "bool": (lambda array: np.ones(array.shape, bool), "is bool"),
    "complex": (lambda array: array.astype(np.complex64), "is complex64"),
}


def in_safetensors(path: Path, name: str, change: Change) -> None:
    with safetensors.safe_open(path, "numpy") as file:
        metadata = file.metadata()
    arrays = safetensors.numpy.load_file(path)
    safetensors.numpy.save_file({**arrays, name: change(arrays[name])}, path, metadata)


def in_hdf5(path: Path, name: str, change: Change) -> None:
    with h5py.File(path, "r+") as file:
        array = file[name][()]
        del file[name]
        file[name] = change(array)


def in_keras(path: Path, name: str, change: Change) -> None:
    with zipfile.ZipFile(path) as archive:
        files = {member: archive.read(member) for member in archive.namelist()}
    weights = path.with_suffix(".h5")
    weights.write_bytes(files["model.weights.h5"])
    in_hdf5(weights, name, change)
    files["model.weights.h5"] = weights.read_bytes()
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in files.items():
            archive.writestr(member, content)


def in_tf1(prefix: Path, name: str, change: Change) -> None:
    arrays = read_arrays(prefix)
    arrays[name] = change(arrays[name])
    names = list(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[arrays[each] for each in names],
    )


def in_run(folder: Path, name: str, change: Change) -> None:
    values = by_name(AlbertPretrainer.of_stored(pretrained_model()).trainable_variables)
    content = {each: tf.Variable(value) for each, value in values.items()}
    content[name] = tf.Variable(change(content[name].numpy()))
    write_checkpoint(tf.train.Checkpoint(weights=content), folder / "checkpoints", 1, good=True)


def in_export(folder: Path, name: str, change: Change) -> None:
    module = tf.Module()
    arrays = pretrained_model().weights
    setattr(module, WEIGHTS, {each: tf.Variable(array) for each, array in arrays.items()})
    getattr(module, WEIGHTS)[name] = tf.Variable(change(arrays[name]))
    tf.saved_model.save(module, str(folder))


_QUERY = "albert_encoder/attention_0_0/query"
# Reader -> how to change an array, in which file, and its name.
PLACES = {
    "Hugging Face": (in_safetensors, "model.safetensors", "albert.pooler.bias"),
    "Hugging Face head": (in_safetensors, "model.safetensors", "classifier.bias"),
    "KerasHub": (in_hdf5, "model.weights.h5", "layers/position_embedding/vars/0"),
    "KerasHub head": (in_hdf5, "task.weights.h5", "layers/dense/vars/1"),
    "keras pretrainer": (in_keras, "model.keras", "encoder/embeddings/vars/2"),
    "fine-tuned run": (in_keras, "seed_0/model.keras", "classifier/output_dense/vars/1"),
    "fine-tuned source": (in_keras, "seed_0/model.keras", "classifier/output_dense/vars/1"),
    "TF1": (in_tf1, "model.ckpt-2", "bert/pooler/dense/bias"),
    "run": (in_run, ".", "albert_encoder.pooler.bias"),
    "SavedModel": (in_export, ".", "pooler/bias"),
    "adapters": (in_safetensors, "adapters.safetensors", f"{_QUERY}/lora_kernel_a"),
    "adapters head": (in_safetensors, "adapters.safetensors", "classifier/output/bias"),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered")  # in Keras, of float64
@pytest.mark.parametrize("name", PLACES)
def test_other_values_are_refused_in_every_format(name, tmp_path):
    reader = BY_NAME[name.removesuffix(" head")]
    edit, file, place = PLACES[name]
    for number, (change, message) in enumerate(CHANGES.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        reader.write(folder)
        if number == 0:  # the file is right until the values are others
            edit(folder / file, place, lambda array: array)
            reader.read(folder)
        edit(folder / file, place, change)
        with pytest.raises(InputError, match=f"Weights must be finite floating-point numbers.* {message}"):
            reader.read(folder)
