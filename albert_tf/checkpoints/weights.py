"""Checks the arrays of files, and renames them between a file's names and ours: all of them, or an error."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from albert_tf.checkpoints.names import (
    OPTIONAL_PARTS,
    PROJECTION,
    SEQUENCE_HEAD,
    HeadSize,
    Naming,
    Parameter,
    as_groups,
    parameters,
)
from albert_tf.config import AlbertConfig
from data_prep.errors import InputError

_DTYPES = ("float32", "float16", "bfloat16", "float64")  # of weights in files
_LISTED = 12  # names or faults in one message
# The group of layer i as the libraries of two formats compute it, in floating point: for some L and G, rounding
# makes it one too small. Ours is i * G // L.
_LIBRARY_GROUPS: dict[str, tuple[str, Callable[[int, int, int], int]]] = {
    "tf1": ("google-research/albert", lambda i, L, G: int(i / L * G)),
    "huggingface": ("transformers", lambda i, L, G: int(i / (L / G))),
}


def as_weights(arrays: Mapping[str, np.ndarray], where: str | Path) -> dict[str, np.ndarray]:
    """Checks the arrays of a file in any format, and returns them as weights.

    Args:
      arrays: by their names in the file.
      where: the file, for the message.

    Returns:
      The arrays in float32.

    Raises:
      InputError: an array is not of floating-point numbers, or holds NaN, infinity or a float64 that is too large
        for float32, as after a training that diverged.
    """
    weights, faults = {}, []
    for name, array in sorted(arrays.items()):
        if array.dtype.name not in _DTYPES:
            faults.append(f"{name} is {array.dtype.name}")
            continue
        with np.errstate(over="ignore"):
            weights[name] = np.asarray(array, np.float32)
        if not np.isfinite(weights[name]).all():
            faults.append(f"{name} holds NaN or infinity")
    if faults:
        raise InputError(
            f"Weights must be finite floating-point numbers. In {where}, {_listed(faults, '; ')}."
        )
    return weights


def to_ours(
    arrays: dict[str, np.ndarray],
    config: AlbertConfig,
    naming: Naming,
    where: str,
    head: HeadSize | None = None,
) -> dict[str, np.ndarray]:
    """Renames and reshapes a file's arrays.

    Args:
      arrays: all weights in the file, under its names.
      config: the model that the file describes.
      naming: the format whose names these are.
      where: the file, for messages.
      head: the head of a fine-tuned model that the file must have.

    Returns:
      float32 arrays under our names: the encoder, each of `OPTIONAL_PARTS` that the file has, and the head with
      what it reads.

    Raises:
      InputError: names are missing or left over, shapes are wrong, or arrays are no weights; all are listed.
        Or the format's library gives a layer another group than we do.
    """
    _check_groups(config, naming, f"{where} cannot be read")
    blocks = as_groups(config).num_hidden_groups * config.inner_group_num
    if blocks > len(arrays):  # checked before their names are made
        raise InputError(f"{where} does not fit its configuration: {blocks} blocks in {len(arrays)} arrays.")
    known = parameters(config, naming, head)
    present = {row.part for row in known if row.theirs in arrays} | {"encoder"}
    if head:
        present.add(head.part)
    if head and head.part == SEQUENCE_HEAD:
        present.add("pooler")  # which the head reads
    ours = rename(arrays, [row for row in known if row.part in present], where)
    if config.embedding_size == config.hidden_size:
        for name in [name for name in ours if name.startswith(PROJECTION)]:
            _check_identity(ours.pop(name), where)
    return ours


def rename(arrays: dict[str, np.ndarray], rows: Iterable[Parameter], where: str) -> dict[str, np.ndarray]:
    """Renames and reshapes exactly the arrays in `rows`; arguments and errors as for `to_ours`."""
    expected = {row.theirs: row for row in rows}
    missing, extra = expected.keys() - arrays.keys(), arrays.keys() - expected.keys()
    if missing or extra:
        raise InputError(f"{where} does not fit its configuration: {_names_message(missing, extra)}.")
    wrong = [
        f"{name} has the shape {list(arrays[name].shape)} and should have {list(row.their_shape)}"
        for name, row in expected.items()
        if arrays[name].shape != row.their_shape
    ]
    if wrong:
        raise InputError(f"{where} does not fit its configuration: {_listed(wrong, '; ')}.")
    weights, ours = as_weights(arrays, where), {}
    for name, row in expected.items():
        array = weights[name]
        ours[row.ours] = np.ascontiguousarray(array.T) if row.transposed else array.reshape(row.shape)
    return ours


def to_theirs(
    weights: dict[str, np.ndarray], config: AlbertConfig, naming: Naming, head: HeadSize | None = None
) -> dict[str, np.ndarray]:
    """The reverse of `to_ours`; parts that the format has no name for, or `weights` lacks, are left out.

    Raises:
      InputError: the format's library gives a layer another group than we do.
    """
    _check_groups(config, naming, "--to=keras can hold this model")
    arrays = {}
    for row in parameters(config, naming, head):
        array = weights.get(row.ours)
        if array is None and row.ours.startswith(PROJECTION):  # E == H, where the original has none
            array = _neutral(row.shape)
        if array is not None:
            theirs = array.T if row.transposed else array.reshape(row.their_shape)
            arrays[row.theirs] = np.ascontiguousarray(theirs)
    return arrays


def parts_of(names: Iterable[str]) -> tuple[str, ...]:
    """Which of `OPTIONAL_PARTS` have a weight among `names`, which are ours."""
    heads = {name.split("/")[0] for name in names}
    return tuple(part for part in OPTIONAL_PARTS if part in heads)


def _check_groups(config: AlbertConfig, naming: Naming, consequence: str) -> None:
    if naming not in _LIBRARY_GROUPS:
        return
    library, group_of = _LIBRARY_GROUPS[naming]
    L, G = config.num_hidden_layers, as_groups(config).num_hidden_groups
    for i in range(L):
        ours, theirs = i * G // L, group_of(i, L, G)
        if theirs != ours:
            raise InputError(
                f"Each layer must have the same group in {library} as here. Of {L} layers in {G} groups, its "
                f"layer {i} has group {theirs} by rounding, ours group {ours}; {consequence}."
            )


def _names_message(missing: Iterable[str], extra: Iterable[str]) -> str:
    messages = []
    for names, what in ((sorted(missing), "missing"), (sorted(extra), "left over")):
        if names:
            messages.append(f"{len(names)} {'name' if len(names) == 1 else 'names'} {what}: {_listed(names)}")
    return "; ".join(messages)


def _listed(items: Iterable[str], separator: str = ", ") -> str:
    items = list(items)
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return separator.join(items[:_LISTED]) + more


def _check_identity(array: np.ndarray, where: str) -> None:
    if not np.array_equal(array, _neutral(array.shape)):
        raise InputError(
            f"{where} projects embeddings that are already as wide as the layers (E == H), which ALBERT does "
            "not: only the identity can be read there."
        )


def _neutral(shape: tuple[int, ...]) -> np.ndarray:
    """The kernel or bias of a projection that changes nothing."""
    return np.eye(*shape, dtype=np.float32) if len(shape) == 2 else np.zeros(shape, np.float32)
