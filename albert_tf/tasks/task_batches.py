"""Batches of task examples with little padding, in an order that an interrupted run can resume.

rows --permute(seed, epoch)--> pools --sort by length--> batches --permute--> gather, pad to the batch's longest
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import tensorflow as tf

from albert_tf.tasks.features import PADDING, Features, is_per_token
from data_prep.errors import InputError

_POOL = 64  # batches sorted together
_ORDER_OF_BATCHES = 1  # separates the two permutations of an epoch


def batches_per_epoch(num_examples: int, batch_size: int) -> int:
    """The number of batches of `bucketed_batches` in an epoch."""
    return -(-num_examples // batch_size)


def by_falling_length(lengths: np.ndarray) -> np.ndarray:
    """The order of the examples in `BatchOrder(None, by_length=True)`."""
    return np.argsort(-lengths, kind="stable")


class RowsOfBatches(Protocol):
    """Which examples each batch has."""

    def rows(self, lengths: np.ndarray, batch_size: int) -> tf.data.Dataset: ...


@dataclass(frozen=True)
class BatchOrder:
    """The examples of each batch of a run; every epoch has every example once.

    The order is a pure function of (seed, epoch): all examples are permuted, cut into pools of 64 batches and
    sorted by length in each pool; then the batches are permuted.

    Attributes:
      seed: the seed of the order; None keeps the order of the examples, or with `by_length=True`, for evaluation,
        sorts them by decreasing length.
      num_epochs: the number of epochs; None for endless batches.
      skip_batches: the number of batches that an interrupted run has taken; the stream resumes there.
      by_length: whether a batch has examples of similar length. Default: if there is a seed.
    """

    seed: int | None
    num_epochs: int | None = 1
    skip_batches: int = 0
    by_length: bool | None = None

    def rows(self, lengths: np.ndarray, batch_size: int) -> tf.data.Dataset:
        """The rows of each batch, int32 [batch_size]; -1 fills the last batch of an epoch.

        Args:
          lengths: the lengths of all examples, int32 [N].
          batch_size: B.
        """

        def rows_of(epoch):
            return tf.data.Dataset.from_tensor_slices(self._epoch(lengths, batch_size, epoch))

        per_epoch = batches_per_epoch(len(lengths), batch_size)
        first_epoch, skip = divmod(self.skip_batches, per_epoch)
        if self.num_epochs is None:
            last_epoch, left = np.iinfo(np.int64).max, tf.data.INFINITE_CARDINALITY
        else:
            last_epoch, left = self.num_epochs, max(0, self.num_epochs * per_epoch - self.skip_batches)
        with tf.device("CPU"):  # tf.data runs there
            rows = rows_of(tf.constant(first_epoch, tf.int64)).skip(skip)
        rows = rows.take(-1 if first_epoch < last_epoch else 0)
        later = tf.data.Dataset.range(min(first_epoch + 1, last_epoch), last_epoch)
        rows = rows.concatenate(later.flat_map(rows_of))
        return rows.apply(tf.data.experimental.assert_cardinality(left))

    def _epoch(self, lengths: np.ndarray, batch_size: int, epoch: tf.Tensor) -> tf.Tensor:
        """The rows of an epoch's batches, int32 [batches, batch_size]."""
        by_length = self.seed is not None if self.by_length is None else self.by_length
        rows = tf.range(len(lengths))
        if self.seed is not None:
            pair = tf.stack([tf.constant(self.seed, tf.int64), epoch])
            rows = tf.random.experimental.stateless_shuffle(rows, seed=pair)
        if by_length:
            pools = tf.range(tf.size(rows)) // (_POOL * batch_size if self.seed is not None else len(lengths))
            # The longest first, so that a lack of memory shows at once.
            key = pools * (int(lengths.max()) + 1) - tf.gather(lengths, rows)
            rows = tf.gather(rows, tf.argsort(key, stable=True))
        per_epoch = batches_per_epoch(len(lengths), batch_size)
        rows = tf.concat([rows, tf.fill([per_epoch * batch_size - len(lengths)], -1)], axis=0)
        batches = tf.reshape(rows, [per_epoch, batch_size])
        if self.seed is not None and by_length:
            batch_seed = tf.random.experimental.stateless_fold_in(pair, _ORDER_OF_BATCHES)
            batches = tf.random.experimental.stateless_shuffle(batches, seed=batch_seed)
        return batches


def bucketed_batches(
    features: Sequence[Features],
    batch_size: int,
    order: RowsOfBatches,
    *,
    fill_remainder: bool = False,
    pad_to: int | None = None,
    length_multiple: int = 1,
) -> tf.data.Dataset:
    """Batches of examples, padded.

    Args:
      features: N examples, dicts of the same names: arrays with a value for each token (the last axis, as long as
        input_ids), scalars, and label_set. The scalar class_weight becomes a part of sample_weight.
      batch_size: B.
      order: the examples of each batch, such as a `BatchOrder`; `index` in the batches restores the order of the
        predictions.
      fill_remainder: fills the last batch of an epoch with its first example, sample_weight 0 and index -1, so
        that all batches have B.
      pad_to: the length of all batches, as in the original.
      length_multiple: T is rounded up to a multiple, but not beyond the longest of all examples.

    Returns:
      A dataset of dicts, T the length of the batch's longest example: everything in `features`, int32 or
      float32 [B, T], [B, C, T], [B] or [B, C]; input_mask, int32, 1 for a token; index, int32 [B], rows of
      `features`; sample_weight, float32 [B].

    Raises:
      InputError: there are no examples, or `pad_to` is shorter than one.
    """
    if not features:
        raise InputError("Batches need at least one example. Received none.")
    lengths = np.array([example["input_ids"].shape[-1] for example in features], np.int32)
    if pad_to is not None and lengths.max() > pad_to:
        raise InputError(
            f"`pad_to` must be no less than the longest example. Received {pad_to} < {lengths.max()}."
        )
    rows = order.rows(lengths, batch_size)
    with tf.device("CPU"):
        gather = _gather_function(features, lengths, pad_to, length_multiple)
    batches = rows.map(
        # If no batch has gaps, its size stays static, which TPUs need.
        lambda numbers: gather(_without_gaps(numbers, fill_remainder)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.prefetch(tf.data.AUTOTUNE).with_options(options)


def _without_gaps(rows, keep_size: bool):
    """Rows of a batch and the weights of its examples."""
    is_real = rows >= 0
    if keep_size:
        return rows, tf.where(is_real, rows, rows[0]), tf.cast(is_real, tf.float32)
    rows = tf.boolean_mask(rows, is_real)
    return rows, rows, tf.ones_like(rows, tf.float32)


def _gather_function(features: Sequence[Features], lengths, pad_to: int | None, length_multiple: int):
    """Returns a function that makes a batch from (index, rows, weights)."""
    begins = tf.constant(np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.int64)]))
    sizes = tf.constant(lengths)
    per_token, per_example = {}, {}
    for name, example in features[0].items():
        values = [other[name] for other in features]
        if is_per_token(name, example):
            by_token = values if example.ndim == 1 else [np.moveaxis(value, -1, 0) for value in values]
            per_token[name] = tf.constant(np.concatenate(by_token))
        else:
            per_example[name] = tf.constant(np.stack(values))

    def _rounded(length):
        return tf.minimum(-(-length // length_multiple) * length_multiple, int(lengths.max()))

    def gather(arguments):
        index, rows, weights = arguments
        length = pad_to if pad_to is not None else _rounded(tf.reduce_max(tf.gather(sizes, rows)))
        is_token = tf.sequence_mask(tf.gather(sizes, rows), length)
        places = tf.where(
            is_token, tf.gather(begins, rows)[:, tf.newaxis] + tf.range(length, dtype=tf.int64), 0
        )
        batch = {"input_mask": tf.cast(is_token, tf.int32)}
        for name, flat in per_token.items():
            values = tf.gather(flat, places)
            filler = tf.constant(PADDING.get(name, 0), flat.dtype)
            if flat.shape.rank == 1:
                batch[name] = tf.where(is_token, values, filler)
            else:  # (B, T, C)
                batch[name] = tf.transpose(tf.where(is_token[..., tf.newaxis], values, filler), [0, 2, 1])
        for name, values in per_example.items():
            batch[name] = tf.gather(values, rows)
        weights *= batch.pop("class_weight", 1.0)
        return {**batch, "index": index, "sample_weight": weights}

    return gather
