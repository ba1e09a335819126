"""A cache on disk for arrays that are slow to compute: SQuAD's windows, RACE's passages.

key --SHA-256--> NAME-HASH.npz, without pickled objects
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.tasks.features import Features
from data_prep.files import NPZ_ERRORS, written_aside
from data_prep.tokenizers.vocabulary import Tokenizer

_VERSION = 1  # of the arrays' meaning; a new version invalidates old files


def cached_features(prefix: Path | None, key: Any, make: Callable[[], Sequence[Features]]) -> list[Features]:
    """The result of `make`, read from a file if one was written for the same key.

    A damaged file is replaced.

    Args:
      prefix: begins the file's path; a hash follows. None disables the cache.
      key: a JSON value of everything that the arrays depend on.
      make: returns N dicts of arrays with equal names and dtypes.
    """
    if prefix is None:
        return list(make())
    file = prefix.with_name(f"{prefix.name}-{_hash(key)}.npz")
    stored = _load(file)
    if stored is not None:
        return stored
    features = list(make())
    file.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(file) as aside, aside.open("wb") as out:
        np.savez(out, **_packed(features))
    return features


def examples_hash(examples: Sequence[Any]) -> str:
    """A hash of the examples' content."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr(example).encode("utf-8", errors="surrogatepass"))
    return digest.hexdigest()


def tokenizer_hash(tokenizer: Tokenizer) -> str:
    """A hash of everything that determines the ids of a text."""
    model = getattr(tokenizer, "serialized_model", None) or "\n".join(tokenizer.pieces).encode("utf-8")
    name = f"{type(tokenizer).__name__} {tokenizer.normalization}"
    return hashlib.sha256(name.encode() + b"\n" + model).hexdigest()


def _hash(key: Any) -> str:
    text = json.dumps([_VERSION, key], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def _packed(features: Sequence[Features]) -> dict[str, Any]:
    """For each name, the concatenated values and each array's shape."""
    packed: dict[str, Any] = {}
    for name, example in features[0].items() if features else ():
        values = [other[name] for other in features]
        packed[f"{name}/values"] = np.concatenate([np.ravel(value) for value in values])
        packed[f"{name}/shapes"] = np.array([value.shape for value in values], np.int32).reshape(
            len(values), example.ndim
        )
    return packed


def _unpacked(stored: Mapping[str, np.ndarray]) -> list[Features]:
    columns = {}
    for name in dict.fromkeys(key.rpartition("/")[0] for key in stored):
        values, shapes = stored[f"{name}/values"], stored[f"{name}/shapes"]
        ends = np.cumsum(shapes.prod(axis=1, dtype=np.int64)).tolist()
        rows = zip([0, *ends], ends, map(tuple, shapes.tolist()), strict=False)
        columns[name] = [values[begin:end].reshape(shape) for begin, end, shape in rows]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _load(file: Path) -> list[Features] | None:
    if not file.is_file():
        return None
    try:
        # Opened here, since np.load leaves a damaged file open.
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
            return _unpacked({name: stored[name] for name in stored.files})
    except NPZ_ERRORS:
        return None
