"""Reading of safetensors files, in which Hugging Face keeps weights and we keep adapters."""

from pathlib import Path

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy, so that safetensors reads and writes it)
import numpy as np
import safetensors

from data_prep.errors import InputError
from data_prep.files import check_file, refuse_damage


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of a safetensors file by name, and its metadata.

    Raises:
      InputError: the file is absent or damaged, or holds numbers that NumPy does not have, for instance of 8 bits.
    """
    check_file(path)
    arrays = {}
    with (
        refuse_damage(path, "a complete safetensors file"),
        safetensors.safe_open(str(path), "numpy") as file,
    ):
        for name in file.keys():  # noqa: SIM118
            try:
                arrays[name] = file.get_tensor(name)
            except AttributeError:
                dtype = file.get_slice(name).get_dtype()
                raise InputError(
                    f"Weights must have 16, 32 or 64 bits each. In {path}, {name} is {dtype}."
                ) from None
        return arrays, file.metadata() or {}
