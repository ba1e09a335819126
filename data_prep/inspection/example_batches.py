"""Files of pretraining examples to NumPy arrays: every record is read, and its checksum checked."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data_prep.errors import InputError
from data_prep.reading.example_files import ExampleLayout, check_feature, parse_record
from data_prep.storage.paths import name_for_tensorflow
from data_prep.tfrecord.records import check_not_empty, is_gzip
from data_prep.tfrecord.schema import Feature, pretraining_features

_BATCH = 512  # examples
_NO_VALUE = np.iinfo(np.int64).min  # no feature has it


class ExampleBatch(NamedTuple):
    """Consecutive examples of a file.

    Attributes:
      first: the number of the first one in its file, from 0.
      values: feature -> array [examples, length], int64 or float32, under the original's names. Those of chunks
        are padded with zeros to the longest chunk; their `input_mask`, 1 for a token, is not in the file.
    """

    first: int
    values: dict[str, np.ndarray]


def read_batches(path: Path) -> Iterator[ExampleBatch]:
    """Reads a whole file of this library, of the original or of Model Garden, a few hundred examples at a time.

    All batches have the features and lengths of the first example.

    >>> next(read_batches(Path("train.tfrecord"))).values["input_ids"].shape
    (512, 128)
    """
    check_not_empty(path)
    name, compression = os.fsencode(name_for_tensorflow(path)), "GZIP" if is_gzip(path) else ""
    dataset = tf.data.TFRecordDataset(name, compression, buffer_size=1 << 20)
    batches = dataset.batch(_BATCH).as_numpy_iterator()
    layout = None
    first = 0
    while (records := _next(batches, path, first)) is not None:
        layout = layout or ExampleLayout.of(records[0], path)
        features = layout.features
        if "token_boundary" in parse_record(records[0], path):  # training does not need it in masked examples
            boundary = pretraining_features(layout.max_seq_length, 0)["token_boundary"]
            features.setdefault("token_boundary", boundary)
        values = _parse(records, features, path, first)
        if layout.holds_chunks:
            values = _padded(values, path, first)
        yield ExampleBatch(first, {layout.original_name(name): array for name, array in values.items()})
        first += len(records)
    if not first:
        raise InputError(f"A TFRecord file must hold examples. {path} is empty.")


def _next(batches: Iterator[np.ndarray], path: Path, first: int) -> np.ndarray | None:
    try:
        return next(batches, None)
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
        # The damage may lie anywhere in the batch.
        raise InputError(
            f"{path} is damaged after record {first}, before record {first + _BATCH}: "
            f"{_reason(error)}. Copy it again or prepare it again."
        ) from None


def _parse(
    records: np.ndarray, features: dict[str, Feature], path: Path, first: int
) -> dict[str, np.ndarray]:
    spec = {name: _parsed_as(feature) for name, feature in features.items()}
    try:
        parsed = tf.io.parse_example(records, spec)
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):  # its message may quote the record
        for number, record in enumerate(records, start=first):
            place = f"{path}, record {number}"
            found = parse_record(record, place)
            for name, feature in features.items():
                check_feature(name, feature, found, place)
        # TensorFlow rejects what the checks above accept.
        raise InputError(
            f"A record must be a tf.train.Example message. {path} has one that is not, from record {first} to "
            f"record {first + len(records) - 1}; prepare it again."
        ) from None
    return {name: values.numpy() for name, values in parsed.items()}


def _parsed_as(feature: Feature):
    dtype = getattr(tf, feature.dtype)
    if feature.length is None:
        return tf.io.FixedLenSequenceFeature([], dtype, allow_missing=True, default_value=_NO_VALUE)
    return tf.io.FixedLenFeature([feature.length], dtype)


def _padded(values: dict[str, np.ndarray], path: Path, first: int) -> dict[str, np.ndarray]:
    """Chunks padded with zeros, and their `input_mask`."""
    lengths = {name: (array != _NO_VALUE).sum(axis=1) for name, array in values.items()}
    wrong = np.flatnonzero(lengths["token_boundary"] != lengths["input_ids"])
    if len(wrong):
        raise InputError(
            f"`token_boundary` must have a value for each of `input_ids`. {path}, record {first + wrong[0]} has "
            f"{lengths['token_boundary'][wrong[0]]} for {lengths['input_ids'][wrong[0]]}."
        )
    mask = (values["input_ids"] != _NO_VALUE).astype(np.int64)
    return {name: np.where(array == _NO_VALUE, 0, array) for name, array in values.items()} | {
        "input_mask": mask
    }


def _reason(error: Exception) -> str:
    """TensorFlow's message without the names of its operations."""
    message = str(getattr(error, "message", error)).split("{{")[-1].split("}}")[-1]
    return message.split("[Op")[0].strip().rstrip(".")
