"""TFRecord files of pretraining examples to batches, in an order that a run can come back to.

files --permute(seed, epoch)--> records --windows, each permuted--> records --> batches --parse--> dict
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from data_prep.errors import InputError
from data_prep.reading.dynamic_masking import DynamicMasking, example_keys, mask_batch, masking_of
from data_prep.tfrecord.records import count_examples, is_gzip, read_records
from data_prep.tfrecord.schema import Feature, pretraining_features

__all__ = ["check_features", "count_examples", "feature_lengths", "pretraining_dataset"]

# Our names on the left, the names in the files on the right.
_BATCH = {
    "input_ids": "input_ids",
    "input_mask": "input_mask",
    "token_type_ids": "segment_ids",
    "masked_lm_positions": "masked_lm_positions",
    "masked_lm_ids": "masked_lm_ids",
    "masked_lm_weights": "masked_lm_weights",
    "sentence_order": "next_sentence_labels",
}
_MODEL_GARDEN = {**_BATCH, "input_ids": "input_word_ids", "token_type_ids": "input_type_ids"}
# Without masked_lm_*, which are made while reading; only then are the words' boundaries needed.
_UNMASKED = {
    **{ours: theirs for ours, theirs in _BATCH.items() if not ours.startswith("masked_lm")},
    "token_boundary": "token_boundary",
}
_CHECKED_RECORDS = 8


def check_features(
    path: str | os.PathLike, max_seq_length: int, max_predictions_per_seq: int, vocab_size: int
) -> None:
    """Checks that a file's first records are what the flags say.

    Args:
      path: a TFRecord file, plain or GZIP.
      max_seq_length: T.
      max_predictions_per_seq: P.
      vocab_size: V; every id must be below.

    Raises:
      InputError: a feature is missing, has another type or length, or holds an id or position out of range.
    """
    features = pretraining_features(max_seq_length, max_predictions_per_seq)
    names = _names_in(path)
    if names is _UNMASKED:
        _check_predictions(masking_of(Path(path)), max_predictions_per_seq, path)
    for number, record in enumerate(read_records(Path(path))):
        if number == _CHECKED_RECORDS:
            break
        values = _parse_one(record, path)
        for ours, name in names.items():
            _check_feature(name, features[_BATCH.get(ours, ours)], values, path)
        _check_range(names["input_ids"], values, vocab_size, "vocab_size", path)
        if names is not _UNMASKED:
            _check_range("masked_lm_ids", values, vocab_size, "vocab_size", path)
            _check_range("masked_lm_positions", values, max_seq_length, "max_seq_length", path)


def feature_lengths(path: str | os.PathLike) -> tuple[int, int]:
    """The T and P that a file was made with, from its first record; P of unmasked ones from the manifest.

    Args:
      path: a TFRecord file, plain or GZIP.

    Raises:
      InputError: the file holds something else than pretraining examples.
    """
    values = _parse_one(next(read_records(Path(path))), path)
    names = _names_of(values)
    if names is _UNMASKED:
        return len(values["input_ids"][1]), masking_of(Path(path)).settings.max_predictions_per_seq
    for name in (names["input_ids"], "masked_lm_positions"):
        if not values.get(name, ("", []))[1]:
            raise InputError(f"Pretraining examples must have the feature `{name}`. {path} has none.")
    return len(values[names["input_ids"]][1]), len(values["masked_lm_positions"][1])


def _names_in(path: str | os.PathLike) -> dict[str, str]:
    return _names_of(_parse_one(next(read_records(Path(path))), path))


def _common_names(files: Sequence[str | os.PathLike]) -> dict[str, str]:
    kind = _names_in(files[0])
    for file in files:
        if _names_in(file) is not kind:
            raise InputError(
                "All files of a run must be of one kind: with masks or without, of one library. Received "
                f"{os.fspath(files[0])} and {os.fspath(file)}, which differ."
            )
    return kind


def _names_of(values: dict) -> dict[str, str]:
    """Whose feature names an example has, and whether it is masked already."""
    if "input_word_ids" in values:
        return _MODEL_GARDEN
    masked = any(name.startswith("masked_lm_") for name in values)
    return _BATCH if masked or "token_boundary" not in values else _UNMASKED


def _check_predictions(masking: DynamicMasking, max_predictions_per_seq: int, path) -> None:
    prepared = masking.settings.max_predictions_per_seq
    if prepared != max_predictions_per_seq:
        raise InputError(
            f"`max_predictions_per_seq` must be what the unmasked examples were prepared with. {path} has "
            f"{prepared}. Received {max_predictions_per_seq}; leave the flag away."
        )


def pretraining_dataset(
    files: Sequence[str | os.PathLike],
    *,
    batch_size: int,
    max_seq_length: int,
    max_predictions_per_seq: int,
    shuffle_seed: int | None = None,
    start_example: int = 0,
    repeat: bool = True,
    drop_remainder: bool = True,
    num_hosts: int = 1,
    host: int = 0,
    shuffle_window: int = 10_000,
    counts: Sequence[int] | None = None,
) -> tf.data.Dataset:
    """Batches of examples; the order is a pure function of (shuffle_seed, epoch).

    In every epoch the files come in another order, and so do the examples inside each run of
    `shuffle_window` records. (Files that `albert prepare` wrote are shuffled as a whole already.) Batches go
    on across the end of an epoch.

    Args:
      files: TFRecord files, plain or GZIP, of this library, of the original or of Model Garden; all of
        one kind. Unmasked ones are masked here, anew in every epoch, by (shuffle_seed or 0, epoch, place in
        the epoch).
      batch_size: B.
      max_seq_length: T.
      max_predictions_per_seq: P.
      shuffle_seed: without one, the order is that of the files.
      start_example: how many examples of this host's an interrupted run had taken; the stream goes on after.
      repeat: start over at the end of the files, for ever.
      drop_remainder: leave out a last batch that is not full.
      num_hosts: how many hosts share the examples. Each reads files of its own. Where there are fewer files
        than hosts, each walks through all of them and keeps every num_hosts-th record of the one stream, so that
        the hosts' n-th batches are together the same global batch whatever their number.
      host: which of them this is.
      shuffle_window: how many records are shuffled together, and held in memory twice.
      counts: examples in each file, if known; else `count_examples(files)`.

    Returns:
      A dataset of dicts: input_ids, input_mask, token_type_ids int32 [B, T]; masked_lm_positions,
      masked_lm_ids int32 [B, P]; masked_lm_weights float32 [B, P]; sentence_order int32 [B], 1 = swapped;
      sentence_order_weights float32 [B], 0 where there is no second segment and so nothing to predict.

    Raises:
      InputError: no files, or one that is missing, empty, cut off, or not a TFRecord file.
    """
    if not files:
        raise InputError("Pretraining needs at least one TFRecord file. Received none.")
    names = [os.fspath(file) for file in files]
    per_file = list(count_examples([Path(name) for name in names]) if counts is None else counts)
    by_file = len(names) >= num_hosts
    if by_file:
        names, per_file = names[host::num_hosts], per_file[host::num_hosts]
    examples, sharers = sum(per_file), 1 if by_file else num_hosts  # of one stream, and who takes turns in it
    if examples < sharers:
        raise InputError(
            f"Every host needs at least one example. Received none for host {host} of {num_hosts}."
        )

    def epoch_records(epoch, skip):
        records = _files_in_order(names, shuffle_seed, epoch)
        if shuffle_seed is None:
            return records.skip(skip)
        return _shuffled(records, shuffle_seed, epoch, shuffle_window, skip)

    first_epoch, skip = divmod(start_example * sharers, examples)
    if repeat:
        records = epoch_records(tf.constant(first_epoch, tf.int64), skip).concatenate(
            tf.data.Dataset.range(first_epoch + 1, np.iinfo(np.int64).max).flat_map(
                lambda epoch: epoch_records(epoch, 0)
            )
        )
    else:
        records = epoch_records(tf.constant(0, tf.int64), min(start_example * sharers, examples))
    if not by_file:
        records = records.shard(num_hosts, host)
    kind = _common_names(files)
    masking = masking_of(Path(files[0])) if kind is _UNMASKED else None
    if masking:
        _check_predictions(masking, max_predictions_per_seq, files[0])

    def parse(number, batch):
        parsed = _parse_batch(batch, kind, max_seq_length, max_predictions_per_seq)
        if not masking:
            return parsed
        # Batches have no gaps, so an example's place in the endless stream follows from its batch's number.
        rows = tf.range(tf.shape(batch)[0], dtype=tf.int64)
        positions = (start_example + number * batch_size + rows) * num_hosts + host
        keys = example_keys(shuffle_seed or 0, positions)
        masked = {**parsed, **mask_batch(parsed, masking, keys)}
        del masked["token_boundary"]
        return masked

    batches = (
        records.batch(batch_size, drop_remainder=drop_remainder)
        .enumerate()
        .map(
            parse,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
    )
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.prefetch(tf.data.AUTOTUNE).with_options(options)


def _files_in_order(names: list[str], seed: int | None, epoch) -> tf.data.Dataset:
    compressions = ["GZIP" if is_gzip(Path(name)) else "" for name in names]
    order = tf.range(len(names))
    if seed is not None:
        order = tf.random.experimental.stateless_shuffle(
            order, seed=tf.stack([tf.cast(seed, tf.int64), epoch])
        )
    files = tf.data.Dataset.from_tensor_slices((tf.gather(names, order), tf.gather(compressions, order)))
    return files.flat_map(
        lambda name, compression: tf.data.TFRecordDataset(name, compression, buffer_size=1 << 20)
    )


def _shuffled(records: tf.data.Dataset, seed: int, epoch, window: int, skip: int) -> tf.data.Dataset:
    """Permutes each window of records by (seed, epoch, number of the window).

    tf.data's own `shuffle` would do for one run, but its order also depends on the program's global seed, and it
    can only be resumed from the start of an epoch.
    """
    whole_windows, rest = divmod(skip, window)

    def permuted(number, rows):
        pair = tf.stack([tf.cast(seed, tf.int64), epoch])
        window_seed = tf.random.experimental.stateless_fold_in(pair, number)
        return tf.random.experimental.stateless_shuffle(rows, seed=window_seed)

    windows = records.skip(whole_windows * window).batch(window).enumerate(start=whole_windows)
    return windows.map(permuted).prefetch(1).unbatch().skip(rest)


def _parse_batch(batch, names: dict[str, str], max_seq_length: int, max_predictions_per_seq: int) -> dict:
    features = pretraining_features(max_seq_length, max_predictions_per_seq)
    spec = {
        name: tf.io.FixedLenFeature([feature.length], getattr(tf, feature.dtype))
        for ours, name in names.items()
        for feature in [features[_BATCH.get(ours, ours)]]
    }
    parsed = tf.io.parse_example(batch, spec)
    result = {}
    for ours, theirs in names.items():
        values = parsed[theirs]
        # Accelerators count in int32.
        result[ours] = tf.cast(values, tf.int32) if values.dtype == tf.int64 else values
    result["sentence_order"] = tf.squeeze(result["sentence_order"], axis=1)
    has_second = tf.reduce_any(result["token_type_ids"] > 0, axis=1)
    result["sentence_order_weights"] = tf.cast(has_second, tf.float32)
    return result


def _parse_one(record: bytes, path) -> dict[str, tuple[str, list]]:
    """Name -> (kind of list, values) of one tf.train.Example."""
    try:
        features = tf.train.Example.FromString(record).features.feature
    except Exception as error:
        # The protobuf library has had several names for this error.
        if type(error).__name__ != "DecodeError":
            raise
        features = {}
    if not features:
        raise InputError(f"{path} must hold tf.train.Examples; its records are something else.")
    kinds = {name: feature.WhichOneof("kind") for name, feature in features.items()}
    return {
        name: (kind, list(getattr(features[name], kind).value)) if kind else ("", [])
        for name, kind in kinds.items()
    }


def _check_feature(name: str, feature: Feature, values: dict, path) -> None:
    if name not in values:
        raise InputError(
            f"Pretraining examples must have the feature `{name}`. {path} has only {', '.join(sorted(values))}."
        )
    kind, received = values[name]
    expected_kind = {"int64": "int64_list", "float32": "float_list"}[feature.dtype]
    if kind != expected_kind:
        raise InputError(
            f"The feature `{name}` must be of type {expected_kind}. {path} has {kind or 'none'}."
        )
    if len(received) != feature.length:
        advice = (
            f" Set `{feature.flag}` to {len(received)} or prepare the data again." if feature.flag else ""
        )
        raise InputError(
            f"The feature `{name}` must have {feature.length} values, as `{feature.flag or 'the format'}` says. "
            f"{path} has {len(received)}.{advice}"
        )


def _check_range(name: str, values: dict, limit: int, flag: str, path) -> None:
    worst = max(values[name][1], key=lambda value: value if value >= 0 else limit - value)
    if not 0 <= worst < limit:
        raise InputError(
            f"The values of `{name}` must be below `{flag}`. {path} has {worst} where `{flag}` is {limit}; "
            "train with the configuration and vocabulary that the data was prepared for."
        )
