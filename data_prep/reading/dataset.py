"""TFRecord files of pretraining examples to batches, in an order that an interrupted run can resume.

files --permute(seed, epoch)--> records --windows, each permuted--> records --> batches --parse, pair, mask--> dict

A mixture has such records for each of its sets of files; for each example, a draw chooses the set it comes from.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from data_prep.errors import InputError
from data_prep.reading.dynamic_masking import DynamicMasking, mask_batch
from data_prep.reading.dynamic_pairs import pair_batch
from data_prep.reading.example_files import ExampleFiles, ExampleLayout
from data_prep.reading.random_draws import count_drawn_sets, drawn_sets, example_keys
from data_prep.storage.paths import address, name_for_tensorflow
from data_prep.tfrecord.records import is_gzip

_COPIED_AHEAD = 2  # files


def pretraining_dataset(
    files: ExampleFiles | str | Path | Sequence[str | Path],
    *,
    batch_size: int,
    shuffle_seed: int | None = None,
    start_example: int = 0,
    repeat: bool = True,
    shuffle_window: int = 10_000,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Batches of examples; the order is a pure function of (shuffle_seed, epoch).

    Every epoch has another order of the files, and of the examples in each window of `shuffle_window` records.
    (A file from `albert prepare` is shuffled as a whole already.) Batches continue across the end of an epoch.
    Masks, and the pairs of chunks, are drawn here in every epoch if preparation has not drawn them; they depend on
    (shuffle_seed or 0, epoch, position in the epoch). In a mixture (`ExampleFiles.mixed`) each set has its own
    order and epochs; which set an example comes from depends on (shuffle_seed or 0, position) alone.

    Args:
      files: the examples, or what `ExampleFiles.read` reads them from.
      batch_size: B.
      shuffle_seed: seed of the order; None keeps the order of the files.
      start_example: number of examples that this host has already read in an interrupted run; the stream resumes
        after them.
      repeat: endless batches, all of size B; otherwise one epoch, whose last batch may be smaller. A mixture is
        always endless.
      shuffle_window: number of records that are shuffled together; memory holds two windows of
        each set.
      input_context: which of several hosts this is. Each reads its own files if these have about as many examples
        as those of every other host. Otherwise, each of N hosts reads all files and keeps every N-th record of the
        one stream, so that the hosts' n-th batches together are the same global batch for any number of hosts.

    Returns:
      A dataset of dicts: input_ids, input_mask, token_type_ids int32 [B, T]; masked_lm_positions,
      masked_lm_ids int32 [B, P]; masked_lm_weights float32 [B, P]; sentence_order int32 [B], 1 = swapped;
      sentence_order_weights float32 [B], 0 for an example without a second segment, which has no order.

    >>> batch = next(iter(pretraining_dataset("heldout.tfrecord", batch_size=8)))
    >>> tuple(batch["input_ids"].shape)
    (8, 32)
    """
    examples = files if isinstance(files, ExampleFiles) else ExampleFiles.read(files)
    share = _share_of(examples, input_context or tf.distribute.InputContext())
    records = share.records(start_example, repeat, shuffle_seed, shuffle_window)

    def parse(number, batch):
        if not examples.masking:
            return _parse_batch(batch, examples.layout)
        # Batches have no gaps, so the number of a batch gives its examples' places in the endless stream.
        rows = tf.range(tf.shape(batch)[0], dtype=tf.int64)
        positions = (start_example + number * batch_size + rows) * share.num_hosts + share.host
        keys = example_keys(shuffle_seed or 0, positions)
        return _drawn_batch(batch, examples.layout, examples.masking, keys)

    batches = (
        records.batch(batch_size, drop_remainder=repeat)
        .enumerate()
        .map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    )
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.prefetch(tf.data.AUTOTUNE).with_options(options)


@dataclass(frozen=True)
class _HostShare:
    """What one host reads: its own files, or every N-th record of all files.

    Attributes:
      sets: the files of each set of a mixture; of one set if nothing is mixed.
      shares: the share of each set.
      num_hosts: N.
      host: its number.
      takes_turns: whether all hosts read the same files.
    """

    sets: Sequence["_FileSet"]
    shares: Sequence[float]
    num_hosts: int
    host: int
    takes_turns: bool

    def records(self, start_example: int, repeat: bool, *order: Any) -> tf.data.Dataset:
        """The serialized examples of this host; the arguments are those of `pretraining_dataset`."""
        start = start_example * self.num_hosts if self.takes_turns else start_example
        if len(self.sets) == 1:
            records = self.sets[0].records(start, repeat, *order)
        else:
            assert repeat, "a mixture has no end"
            records = self._mixed_records(start, *order)
        return records.shard(self.num_hosts, self.host) if self.takes_turns else records

    def _mixed_records(self, start: int, shuffle_seed: int | None, shuffle_window: int) -> tf.data.Dataset:
        """Endless records, each from the set that is drawn for its place in the stream of all hosts."""
        first, step = (0, 1) if self.takes_turns else (self.host, self.num_hosts)
        begin, seed = first + start * step, shuffle_seed or 0
        read = count_drawn_sets(seed, range(first, begin, step), self.shares).tolist()
        streams = [
            files.records(number, True, shuffle_seed, shuffle_window)
            for files, number in zip(self.sets, read, strict=True)
        ]
        positions = tf.data.Dataset.range(begin, np.iinfo(np.int64).max, step).batch(_DRAWN_TOGETHER)
        choices = positions.map(lambda some: drawn_sets(seed, some, self.shares)).unbatch()
        return tf.data.Dataset.choose_from_datasets(streams, choices, stop_on_empty_dataset=False)


@dataclass(frozen=True)
class _FileSet:
    """Files that are read together.

    Attributes:
      paths: the files.
      counts: number of examples in each file.
    """

    paths: list[Path]
    counts: list[int]

    def records(
        self, start: int, repeat: bool, shuffle_seed: int | None, shuffle_window: int
    ) -> tf.data.Dataset:
        """The serialized examples from number `start` on, in the order of `pretraining_dataset`."""

        def epoch_records(epoch, skip):
            if shuffle_seed is None:
                return self._in_order(None, epoch, skip)
            whole_windows, rest = divmod(skip, shuffle_window)
            later = self._in_order(shuffle_seed, epoch, whole_windows * shuffle_window)
            return _shuffled(later, shuffle_seed, epoch, shuffle_window, whole_windows).skip(rest)

        num_examples = sum(self.counts)
        if repeat:
            return _endless(epoch_records, num_examples, start)
        return epoch_records(tf.constant(0, tf.int64), min(start, num_examples))

    def _in_order(self, seed: int | None, epoch: tf.Tensor, skip: int) -> tf.data.Dataset:
        """The serialized examples of the files from number `skip` on; files that end before it are not read."""
        compressions = ["GZIP" if is_gzip(path) else "" for path in self.paths]
        order = tf.range(len(self.paths))
        if seed is not None:
            order = tf.random.experimental.stateless_shuffle(
                order, seed=tf.stack([tf.cast(seed, tf.int64), epoch])
            )
        ends = tf.cumsum(tf.gather(tf.constant(self.counts, tf.int64), order))
        first = tf.searchsorted(ends, [tf.constant(skip, tf.int64)], side="right")[0]
        left = skip - tf.gather(tf.concat([[0], ends], axis=0), first)
        order = order[first:]
        names = [str(path) for path in self.paths]
        files = tf.data.Dataset.from_tensor_slices((tf.gather(names, order), tf.gather(compressions, order)))
        if any(map(address, self.paths)):
            # Twice, since the cache may have needed the place of a copy that waited.
            files = files.map(_copied).prefetch(_COPIED_AHEAD).map(_with_local_name)
        return files.flat_map(
            lambda name, compression: tf.data.TFRecordDataset(name, compression, buffer_size=1 << 20)
        ).skip(left)


def _copied(name: tf.Tensor, compression: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The same; a file that TensorFlow cannot read where it is has a copy on this machine by then."""
    with tf.control_dependencies([_with_local_name(name, compression)[0]]):
        return tf.identity(name), compression


def _with_local_name(name: tf.Tensor, compression: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The name under which TensorFlow reads a file that may be remote; copies the file when it is needed."""

    def local_name(name: tf.Tensor) -> str:
        return name_for_tensorflow(Path(os.fsdecode(name.numpy())))

    return tf.ensure_shape(tf.py_function(local_name, [name], tf.string), []), compression


_DRAWN_TOGETHER = 1024  # sets of examples

# Every host contributes equally to a batch. If hosts read their own files, examples of the host with the fewest
# are read up to this many times as often as those of the host with the most.
_MOST_UNEVEN = 1.1


def _share_of(files: ExampleFiles, context: tf.distribute.InputContext) -> _HostShare:
    num_hosts, host = context.num_input_pipelines, context.input_pipeline_id
    if files.num_examples < num_hosts:
        raise InputError(
            f"There must be an example for every host. Received {files.num_examples} for {num_hosts} hosts."
        )
    sets = _file_sets(files)
    owned = [[sum(each.counts[n::num_hosts]) for n in range(num_hosts)] for each in sets]
    # Also if a set has fewer files than there are hosts.
    takes_turns = any(max(counts) > _MOST_UNEVEN * min(counts) for counts in owned)
    own = slice(None) if takes_turns else slice(host, None, num_hosts)
    sets = [_FileSet(each.paths[own], each.counts[own]) for each in sets]
    return _HostShare(sets, files.shares, num_hosts, host, takes_turns)


def _file_sets(files: ExampleFiles) -> list[_FileSet]:
    """The sets of a mixture, or all files as one."""
    numbers = files.sets or [0] * len(files.paths)
    sets = [_FileSet([], []) for _ in files.shares or [1.0]]
    for number, path, count in zip(numbers, files.paths, files.counts, strict=True):
        sets[number].paths.append(path)
        sets[number].counts.append(count)
    return sets


def _endless(epoch_records: Callable[..., tf.data.Dataset], num_examples: int, start: int) -> tf.data.Dataset:
    """Serialized examples of one epoch after the other, from number `start` of the stream on."""
    first_epoch, skip = divmod(start, num_examples)
    later_epochs = tf.data.Dataset.range(first_epoch + 1, np.iinfo(np.int64).max)
    return epoch_records(tf.constant(first_epoch, tf.int64), skip).concatenate(
        later_epochs.flat_map(lambda epoch: epoch_records(epoch, 0))
    )


def _shuffled(
    records: tf.data.Dataset, seed: int, epoch: tf.Tensor, window: int, first: int
) -> tf.data.Dataset:
    """Permutes each window of records by (seed, epoch, number of the window); numbers start from `first`.

    tf.data's own `shuffle` also depends on the program's global seed, and resumes only from the start of an epoch.
    """

    def permuted(number, rows):
        pair = tf.stack([tf.cast(seed, tf.int64), epoch])
        window_seed = tf.random.experimental.stateless_fold_in(pair, number)
        return tf.random.experimental.stateless_shuffle(rows, seed=window_seed)

    windows = records.batch(window).enumerate(start=first)
    return windows.map(permuted).prefetch(1).unbatch()


def _drawn_batch(
    batch: tf.Tensor, layout: ExampleLayout, masking: DynamicMasking, keys: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Parses examples, and draws the pairs and masks that preparation has not drawn."""
    if layout.holds_chunks:
        kind = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int32)
        chunks = tf.io.parse_example(batch, dict.fromkeys(layout.features, kind))
        parsed = pair_batch(chunks, layout.max_seq_length, masking, keys)
        parsed = {
            name: tf.ensure_shape(values, [batch.shape[0], *values.shape[1:]])
            for name, values in parsed.items()
        }
        parsed["sentence_order_weights"] = tf.ones_like(parsed["sentence_order"], tf.float32)
    else:
        parsed = _parse_batch(batch, layout)
    masked = {**parsed, **mask_batch(parsed, masking, keys)}
    del masked["token_boundary"]
    return masked


def _parse_batch(batch: tf.Tensor, layout: ExampleLayout) -> dict[str, tf.Tensor]:
    spec = {
        name: tf.io.FixedLenFeature([feature.length], getattr(tf, feature.dtype))
        for name, feature in layout.features.items()
    }
    parsed = tf.io.parse_example(batch, spec)
    result = {}
    for ours, theirs in layout.names.items():
        values = parsed[theirs]
        # Accelerators count in int32.
        result[ours] = tf.cast(values, tf.int32) if values.dtype == tf.int64 else values
    result["sentence_order"] = tf.squeeze(result["sentence_order"], axis=1)
    has_second = tf.reduce_any(result["token_type_ids"] > 0, axis=1)
    result["sentence_order_weights"] = tf.cast(has_second, tf.float32)
    return result
