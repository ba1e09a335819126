"""Keras' files as arrays: everything in them is checked, and no class that they name is created."""

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np

from albert_tf.checkpoints.archives import max_unpacked_bytes
from albert_tf.checkpoints.weights import as_weights
from albert_tf.config import AlbertConfig
from albert_tf.parameters import count_parameters
from data_prep.errors import InputError
from data_prep.files import check_file, refuse_damage

WEIGHTS_FILE = "model.weights.h5"  # inside a .keras file
NO_WEIGHTS = re.compile("optimizer/|(.*/)?dropout_state$")  # arrays of a .keras file, by their names


def read_description(path: Path) -> dict[str, Any]:
    """Checks everything in a .keras file but the values of its weights, and returns the description of its model.

    Raises:
      InputError: the file is damaged, unpacks to many times its size, has arrays larger than itself, or the
        weights of a model that is not quantized are not floating-point numbers.
    """
    check_file(path)
    with refuse_damage(path, "a complete .keras file"), zipfile.ZipFile(path) as archive:
        if sum(info.file_size for info in archive.infolist()) > max_unpacked_bytes(path):
            raise InputError(f"{path} unpacks to many times its size, which no weights do.")
        if member := archive.testzip():
            raise InputError(f"{path} is damaged: the checksum of {member} is wrong.")
        description = json.loads(archive.read("config.json"))
        with archive.open(WEIGHTS_FILE) as weights, h5py.File(weights) as file:
            arrays = _check_arrays(file, archive.getinfo(WEIGHTS_FILE).file_size, path)
            dtypes = {name: _dtype(item) for name, item in arrays.items() if not NO_WEIGHTS.match(name)}
    if not isinstance(description, dict):
        raise InputError(f"{path} is not a complete .keras file: its config.json must hold one JSON object.")
    config = description.get("config")
    if not (isinstance(config, dict) and "quantized" in config):
        as_weights({name: np.empty(0, dtype) for name, dtype in dtypes.items()}, path)
    return description


def read_hdf5(path: Path, is_wanted: Callable[[str], bool] = lambda name: True) -> dict[str, np.ndarray]:
    """The arrays of an HDF5 file.

    Args:
      path: the file.
      is_wanted: whether to read the array with a name.

    Raises:
      InputError: the file is absent or damaged, or an array lies in another file or is larger than this one.
    """
    check_file(path)
    with refuse_damage(path, "a complete HDF5 file"), h5py.File(path) as file:
        arrays = _check_arrays(file, path.stat().st_size, path)
        return {name: item[()].view(_dtype(item)) for name, item in arrays.items() if is_wanted(name)}


def _dtype(item: h5py.Dataset) -> np.dtype:
    """Keras stores bfloat16, which HDF5 does not know, as two bytes without a type, and names it beside them."""
    is_bfloat16 = item.dtype == "V2" and str(item.attrs.get("dtype")) == "bfloat16"
    return np.dtype(ml_dtypes.bfloat16) if is_bfloat16 else item.dtype


def check_size(config: AlbertConfig, size: int, where: str | Path, head: int = 0) -> None:
    """Raises InputError if a model has more parameters than its file has bytes: it might not fit into memory.

    Args:
      config: the encoder's shape.
      size: of the file, in bytes.
      where: the file, for the message.
      head: the number of the head's parameters.
    """
    parameters = count_parameters(config).encoder + head
    if parameters > size:
        raise InputError(
            f"{where} does not fit its configuration: it has {size:,} bytes for {parameters:,} parameters."
        )


def _check_arrays(file: h5py.File, size: int, path: Path) -> dict[str, h5py.Dataset]:
    """Name -> array, of a file of `size` bytes."""
    arrays = {}

    def collect(name: str, item) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        if item.shape is None:
            raise InputError(f"{path} must hold arrays; {name} has no values.")
        if item.external or item.is_virtual:  # would read other files
            raise InputError(f"{path} must hold its arrays itself; {name} lies in another file.")
        if item.nbytes > size:  # Keras does not compress
            raise InputError(
                f"{path} must hold its arrays in full; {name} claims to be larger than the file."
            )
        arrays[name] = item

    file.visititems(collect)  # follows no links
    return arrays
