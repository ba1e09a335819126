"""TFRecord files of pretraining examples to NumPy arrays, whole files, every checksum checked.

Files of this library and of the original, plain or GZIP; also those without masks, which are masked in training.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data_prep.errors import InputError
from data_prep.tfrecord.records import is_gzip
from data_prep.tfrecord.schema import Feature, pretraining_features
from data_prep.tfrecord.serialization import parse_example

MASKING_FEATURES = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_BATCH = 512  # examples


class ExampleBatch(NamedTuple):
    """Neighbouring examples of one file.

    Attributes:
      first: the number of the first one in its file, from 0.
      values: feature -> array [examples, length], int64 or float32.
    """

    first: int
    values: dict[str, np.ndarray]


def read_batches(path: Path) -> Iterator[ExampleBatch]:
    """Reads a file from its first record to its last, a few hundred at a time.

    Args:
      path: a TFRecord file, plain or GZIP.

    Yields:
      Batches; all examples have the features and lengths of the first one.

    Raises:
      InputError: the file is missing, empty, damaged, or holds something else; names the record.

    >>> next(read_batches(Path("train.tfrecord"))).values["input_ids"].shape
    (512, 128)
    """
    if not path.is_file():
        raise InputError(f"There is no TFRecord file {path}.")
    if path.stat().st_size == 0:
        raise InputError(f"A TFRecord file must hold examples. {path} is empty.")
    dataset = tf.data.TFRecordDataset(str(path), "GZIP" if is_gzip(path) else "", buffer_size=1 << 20)
    batches = dataset.batch(_BATCH).as_numpy_iterator()
    features: dict[str, Feature] = {}
    first = 0
    while True:
        records = _next(batches, path, first)
        if records is None:
            break
        features = features or _features(records[0], path)
        yield ExampleBatch(first, _parsed(records, features, path, first))
        first += len(records)
    if not first:
        raise InputError(f"A TFRecord file must hold examples. {path} is empty.")


def _next(batches: Iterator[np.ndarray], path: Path, first: int) -> np.ndarray | None:
    try:
        return next(batches, None)
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
        # A batch is read as a whole, so the damage may lie anywhere in it.
        raise InputError(
            f"{path} is damaged after record {first}, before record {first + _BATCH}: "
            f"{_reason(error)}. Copy it again or prepare it again."
        ) from None


def _features(record: bytes, path: Path) -> dict[str, Feature]:
    """What the examples of a file have, by its first one."""
    found = _lengths(record)
    if "input_ids" not in found:
        raise InputError(
            f"Pretraining examples must have the feature `input_ids`. {path} has "
            f"{'only ' + ', '.join(sorted(found)) if found else 'records that are no tf.train.Examples'}."
        )
    masked = [name for name in MASKING_FEATURES if name in found]
    schema = pretraining_features(found["input_ids"][1], found.get("masked_lm_ids", ("", 0))[1])
    if not masked:
        schema = {name: feature for name, feature in schema.items() if name not in MASKING_FEATURES}
    elif "token_boundary" not in found:
        del schema["token_boundary"]  # masked already, so nobody needs it
    return schema


def _parsed(
    records: np.ndarray, features: dict[str, Feature], path: Path, first: int
) -> dict[str, np.ndarray]:
    spec = {
        name: tf.io.FixedLenFeature([feature.length], getattr(tf, feature.dtype))
        for name, feature in features.items()
    }
    try:
        parsed = tf.io.parse_example(records, spec)
    except tf.errors.InvalidArgumentError:
        for number, record in enumerate(records, start=first):
            _check_record(_lengths(record), features, f"{path}, record {number}")
        raise  # parse_example knows something that the schema does not say
    return {name: values.numpy() for name, values in parsed.items()}


def _check_record(found: dict[str, tuple[str, int]], features: dict[str, Feature], place: str) -> None:
    for name, feature in features.items():
        if name not in found:
            raise InputError(
                f"Pretraining examples must have the feature `{name}`. {place} has only "
                f"{', '.join(sorted(found)) or 'none'}."
            )
        kind, length = found[name]
        expected = {"int64": "int64_list", "float32": "float_list"}[feature.dtype]
        if (kind, length) != (expected, feature.length):
            raise InputError(
                f"The feature `{name}` must be an {expected} of {feature.length} values, as the file's first "
                f"example suggests. {place} has {'an ' + kind if kind else 'a list'} of {length}."
            )


def _lengths(record: bytes) -> dict[str, tuple[str, int]]:
    """Feature -> (kind of list, number of values); empty if the record is not a tf.train.Example."""
    return {name: (kind, len(values)) for name, (kind, values) in parse_example(record).items()}


def _reason(error: Exception) -> str:
    """TensorFlow's own words, without the names of its operations."""
    return (
        str(getattr(error, "message", error))
        .split("{{")[-1]
        .split("}}")[-1]
        .split("[Op")[0]
        .strip()
        .rstrip(".")
    )
