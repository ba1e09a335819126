"""Reading of pytorch_model.bin, in which older Hugging Face directories keep weights."""

import zipfile
from pathlib import Path

import numpy as np

from data_prep.errors import InputError, first_line, needs_extra
from data_prep.files import check_file, refuse_damage

_MOST_SHARED = 2  # tensors of one storage, such as embeddings and the layer that they are tied to


def read_pytorch(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a file by name, and nothing else: `weights_only` refuses a pickle that would run code.

    Raises:
      InputError: the file is absent or damaged, holds something else, or PyTorch is not installed.
    """
    with needs_extra(f"Reading {path} (other than model.safetensors)", "torch", "torch"):
        import torch
    check_file(path)
    _check_zip(path)
    with refuse_damage(path, "a file of tensors that can be read safely"):
        state = torch.load(path, map_location="cpu", weights_only=True)
    is_named = isinstance(state, dict) and all(isinstance(name, str) for name in state)
    if not is_named or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise InputError(f"{path} must hold names and tensors, and nothing else.")
    claimed = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    if claimed > _MOST_SHARED * path.stat().st_size:
        raise InputError(
            f"{path} must hold the values of its tensors. It has {path.stat().st_size:,} bytes for {claimed:,} "
            "bytes of them."
        )
    try:
        return {name: _to_numpy(tensor, torch) for name, tensor in state.items()}
    except (TypeError, RuntimeError) as error:  # float8, sparse or quantized tensors
        raise InputError(
            f"{path} must hold float32, float16 or bfloat16 tensors, which NumPy can hold. Received another kind: "
            f"{first_line(error)}"
        ) from None


def _check_zip(path: Path) -> None:
    """PyTorch stores tensors uncompressed; a compressed file is an attempt to fill the memory."""
    try:
        with zipfile.ZipFile(path) as archive:
            claimed = sum(info.file_size for info in archive.infolist())
    except zipfile.BadZipFile:
        return  # an older version of PyTorch, or damaged: torch.load reports it
    if claimed > path.stat().st_size:
        raise InputError(
            f"{path} unpacks to {claimed:,} bytes, more than its size, as no file of weights does."
        )


def _to_numpy(tensor, torch) -> np.ndarray:
    tensor = tensor.detach()  # it may be a parameter
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
