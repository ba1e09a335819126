"""The checks of a portable model's inputs, which are those of TF2 hub encoders."""

from collections.abc import Mapping

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.tasks.hub_names import MASKED_POSITIONS, TEXT_INPUTS
from data_prep.errors import InputError


def checked_ids(inputs: Mapping, config: AlbertConfig) -> dict[str, np.ndarray]:
    """The encoder's inputs as int32 arrays (B, T), and positions (B, P) if they are given.

    Raises:
      InputError: an input is missing, unknown, of another shape, no integers, or out of range.
    """
    missing = [name for name in TEXT_INPUTS if name not in inputs]
    unknown = [name for name in inputs if name not in (*TEXT_INPUTS, MASKED_POSITIONS)]
    if missing or unknown:
        raise InputError(
            f"An encoder takes {', '.join(TEXT_INPUTS)} and, for mlm_logits, {MASKED_POSITIONS}. Received "
            f"{', '.join(map(str, inputs)) or 'nothing'}."
        )
    ids, mask, types = (_integers(inputs, name) for name in TEXT_INPUTS)
    if not ids.shape == mask.shape == types.shape:
        raise InputError(
            f"Token ids, mask and token types must have the same shape. Received {ids.shape}, {mask.shape}, "
            f"{types.shape}."
        )
    longest = config.max_position_embeddings
    if not 1 <= ids.shape[1] <= longest:
        raise InputError(f"Rows must have from 1 to {longest} tokens. Received {ids.shape[1]}.")
    _check_range("Token ids", ids, config.vocab_size)
    _check_range("The mask", mask, 2)
    _check_range("Token types", types, config.type_vocab_size)
    checked = dict(zip(TEXT_INPUTS, (ids, mask, types), strict=True))
    if MASKED_POSITIONS in inputs:
        positions = _integers(inputs, MASKED_POSITIONS)
        if len(positions) != len(ids):
            raise InputError(
                f"Masked positions must have as many rows as token ids, {len(ids)}. Received {len(positions)}."
            )
        _check_range("Masked positions", positions, ids.shape[1])
        checked[MASKED_POSITIONS] = positions
    return {name: array.astype(np.int32) for name, array in checked.items()}


def _integers(inputs: Mapping, name: str) -> np.ndarray:
    try:
        array = np.asarray(inputs[name])
    except ValueError:  # rows of different lengths
        raise InputError(
            f"`{name}` must be an array (rows, tokens). Received rows of different lengths."
        ) from None
    if array.ndim != 2 or (array.dtype.kind not in "iu" and array.size):
        raise InputError(
            f"`{name}` must be integers (rows, tokens). Received {array.dtype} of the shape {array.shape}."
        )
    return array


def _check_range(name: str, values: np.ndarray, end: int) -> None:
    if values.size and not 0 <= values.min() <= values.max() < end:
        raise InputError(f"{name} must be from 0 to {end - 1}. Received {values.min()} to {values.max()}.")
