"""Operations on the characters of a batch of texts as flat tensors, for both tokenizers."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data_prep.tokenizers.normalization import SIGMA, CaseKind, case_kinds

TEXTS = [tf.TensorSpec([None], tf.string)]


class RaggedEncoding(NamedTuple):
    """The ids of B texts and the offsets of their pieces.

    Attributes:
      ids: RaggedTensor int32 [B, (T)].
      begins, ends: RaggedTensor int64 [B, (T)], offsets in the original texts, in bytes.
    """

    ids: tf.RaggedTensor
    begins: tf.RaggedTensor
    ends: tf.RaggedTensor


class SigmaRule(tf.Module):
    """The lower case of Σ, which depends on its neighbours (ΟΔΟΣ -> οδος)."""

    def __init__(self):
        super().__init__()
        self._kinds = tf.constant(np.append(case_kinds(), np.uint8(CaseKind.NEITHER)))

    def __call__(self, codes: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
        """Lower-cases every Σ in code points, int32 [N], of texts with splits, int64 [B + 1]."""
        has_sigma = tf.reduce_any(codes == ord(SIGMA))
        return tf.cond(has_sigma, lambda: self._lower(codes, splits), lambda: codes)

    def _lower(self, codes: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
        """Σ to ς if a cased character precedes and none follows, else to σ; skips ignored characters."""
        kinds = looked_up(self._kinds, codes)
        counted = tf.where(kinds != CaseKind.IGNORED)[:, 0]
        sigmas = tf.where(codes == ord(SIGMA))
        place = tf.searchsorted(counted, sigmas[:, 0])
        counted = tf.concat([[-1], counted, [size(codes)]], 0)  # sentinels: every place has neighbours
        before, after = tf.gather(counted, place), tf.gather(counted, place + 2)
        text = tf.searchsorted(splits, sigmas[:, 0], side="right") - 1
        is_cased = padded(kinds == CaseKind.CASED)
        follows = (before >= tf.gather(splits, text)) & tf.gather(is_cased, tf.maximum(before, 0))
        goes_on = (after < tf.gather(splits, text + 1)) & tf.gather(is_cased, after)
        lowered = tf.where(follows & ~goes_on, ord("ς"), ord("σ"))
        return tf.tensor_scatter_nd_update(codes, sigmas, lowered)


def looked_up(table: tf.Tensor, codes: tf.Tensor) -> tf.Tensor:
    """The table's values of code points; beyond the table, its last value."""
    return tf.gather(table, tf.minimum(codes, table.shape[0] - 1))


def encoded(codes: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
    """Code points, int32 [N], to UTF-8 strings [B]."""
    return tf.strings.unicode_encode(tf.RaggedTensor.from_row_splits(codes, splits), "UTF-8")


def utf8_widths(codes: tf.Tensor) -> tf.Tensor:
    """The number of bytes of each code point, int64."""
    return 1 + sum(tf.cast(codes >= first, tf.int64) for first in (0x80, 0x800, 0x10000))


def count_before(counts: tf.Tensor) -> tf.Tensor:
    """[0, a, a + b, ...] of [a, b, ...], int64."""
    return tf.concat([[0], tf.cumsum(tf.cast(counts, tf.int64))], 0)


def row_of_values(splits: tf.Tensor) -> tf.Tensor:
    """[0, 0, 2, 2, 2] of [0, 2, 2, 5]; tf.repeat would need memory for rows times the longest row."""
    total = tf.cast(splits[-1], tf.int32)
    starts = tf.math.bincount(tf.cast(splits[1:-1], tf.int32), minlength=total, maxlength=total)
    return tf.cumsum(starts)


def size(values: tf.Tensor) -> tf.Tensor:
    """The number of values, int64."""
    return tf.size(values, out_type=tf.int64)


def padded(values: tf.Tensor) -> tf.Tensor:
    """The values and a zero, so that the index after the last is valid."""
    return tf.concat([values, tf.zeros([1], values.dtype)], 0)
