"""The dict of arrays that a model takes: its names, its defaults, and the rules for it."""

import functools
import logging
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from albert_tf.config import AlbertConfig

_BATCH, _LONGEST, _PREDICTIONS = 3, 32, 4  # of random inputs
# The names that Hugging Face, KerasHub and the original give the inputs -> ours, and what they are.
_OTHER_NAMES = {
    "token_ids": ("input_ids", "tokens"),
    "attention_mask": ("input_mask", "mask"),
    "padding_mask": ("input_mask", "mask"),
    "segment_ids": ("token_type_ids", "segments"),
}


def check_names(inputs: Any, *needed: str) -> None:
    """Checks the dict that a model is called with.

    Raises:
      ValueError: it is no dict, lacks a needed key, or has the name that another library gives one.
    """
    if not isinstance(inputs, Mapping):
        raise ValueError(
            "A model is called with a dict of integer arrays such as {'input_ids': ids}. Received an object of "
            f"type {type(inputs).__name__}."
        )
    for theirs, (ours, what) in _OTHER_NAMES.items():
        if theirs in inputs:
            raise ValueError(f"`{ours}` is the name of the {what} here. Received `{theirs}`; rename it.")
    for name in needed:
        if name not in inputs:
            raise ValueError(
                f"The inputs must have `{name}`. Received {', '.join(map(str, inputs)) or 'none'}."
            )
    report_padding(inputs)


def report_padding(inputs: Mapping[str, Any]) -> None:
    """Logs once if rows end with padding, the id 0, that no `input_mask` marks."""
    ids: Any = inputs.get("input_ids")
    is_known = isinstance(ids, np.ndarray) or hasattr(ids, "numpy")  # others belong to a graph
    if "input_mask" in inputs or not is_known or not len(ids.shape) or _report_padding.cache_info().currsize:
        return
    if not np.all(ops.convert_to_numpy(ids[..., -1:])):
        _report_padding()


@functools.cache
def _report_padding() -> None:
    logging.getLogger(__name__).warning(
        "`input_ids` end with padding (0) and come without `input_mask`: the model reads the padding, which "
        "changes its outputs. Pass `input_mask`, 1 for tokens and 0 for padding."
    )


def encoder_arrays(inputs: Mapping[str, Any], config: AlbertConfig) -> tuple:
    """`input_ids`, `input_mask` and `token_type_ids`, (B, T) each, with their defaults.

    Args:
      inputs: as `check_names` accepts it.
      config: the encoder's.

    Raises:
      ValueError: the ids are no integers (B, T), sequences are too long, or another array has another shape.
    """
    input_ids = inputs["input_ids"]
    shape, dtype = tuple(input_ids.shape), keras.backend.standardize_dtype(input_ids.dtype)
    if len(shape) != 2 or not keras.backend.is_int_dtype(dtype):
        advice = '; give `keras.Input` dtype="int32"' if dtype.startswith("float") else ""
        raise ValueError(f"`input_ids` must be integers (B, T). Received {dtype} {shape}{advice}.")
    T, longest = ops.shape(input_ids)[1], config.max_position_embeddings
    if isinstance(T, int) and T > longest:
        raise ValueError(
            f"`input_ids` must not be longer than `max_position_embeddings`. Received {T} and {longest}."
        )
    defaults = {"input_mask": ops.ones_like, "token_type_ids": ops.zeros_like}
    others = []
    for name, default in defaults.items():
        array = inputs.get(name)
        if array is not None and not _agree(tuple(array.shape), shape):
            raise ValueError(
                f"`{name}` must have the shape of `input_ids`. Received {tuple(array.shape)} and {shape}."
            )
        others.append(default(input_ids) if array is None else array)
    if config.type_vocab_size == 1:  # texts of a pair have no types of their own
        others[1] = ops.zeros_like(others[1])
    return input_ids, *others


def _agree(shape: tuple, other: tuple) -> bool:
    """Whether two shapes may be equal, since sizes that are no integers are not known yet."""
    if len(shape) != len(other):
        return False
    known = [pair for pair in zip(shape, other, strict=True) if all(isinstance(size, int) for size in pair)]
    return all(size == other_size for size, other_size in known)


def random_inputs(config: AlbertConfig, seed: int) -> dict[str, np.ndarray]:
    """Random ids, (B, T), with padding and several token types, and masked_lm_positions (B, P), all int32."""
    rng = np.random.default_rng(seed)
    T = min(_LONGEST, config.max_position_embeddings)
    lengths = rng.integers(T // 2 + 1, T + 1, _BATCH)
    batch = {
        "input_ids": rng.integers(0, config.vocab_size, (_BATCH, T)),
        "input_mask": np.arange(T) < lengths[:, None],
        "token_type_ids": rng.integers(0, config.type_vocab_size, (_BATCH, T)),
        "masked_lm_positions": rng.integers(0, T // 2 + 1, (_BATCH, _PREDICTIONS)),
    }
    return {name: array.astype("int32") for name, array in batch.items()}
