"""Draws sentence-order pairs from chunks while reading, with TensorFlow ops on a whole batch.

The rules are those of `sentence_order_pair` in `segments.py`: a cut at any sentence boundary, a swap with p = .5,
tokens lost at the front and the back of the longer segment.

chunks --_cut--> two segments --_truncate--> two segments of T - 3 tokens --_joined--> [CLS] a [SEP] b [SEP]
"""

from typing import NamedTuple

import tensorflow as tf

from data_prep.reading.dynamic_masking import DynamicMasking
from data_prep.reading.random_draws import fair_binomial, subkeys, uniform_pairs


class _Segment(NamedTuple):
    """A stretch of the tokens of all chunks, for each example: its first token and its length, int32 [B]."""

    begin: tf.Tensor
    length: tf.Tensor


def pair_batch(
    chunks: dict[str, tf.RaggedTensor], max_seq_length: int, masking: DynamicMasking, keys: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Cuts, swaps and truncates a batch; the result depends only on the chunks and their keys.

    Args:
      chunks: the features of `chunk_features`, int64 [B, any number], row splits int32.
      max_seq_length: T.
      masking: ids of the symbols.
      keys: uint64 [B], one for each example and epoch (`example_keys`).

    Returns:
      input_ids, input_mask, token_type_ids, token_boundary int32 [B, T]; sentence_order int32 [B], 1 = swapped.
    """
    swapped, a, b = _cut(chunks, subkeys(keys, 1))
    a, b = _truncate(a, b, max_seq_length - 3, keys)
    return {**_joined(chunks, a, b, max_seq_length, masking), "sentence_order": tf.cast(swapped, tf.int32)}


def _cut(chunks: dict[str, tf.RaggedTensor], keys: tf.Tensor) -> tuple[tf.Tensor, _Segment, _Segment]:
    """Draws whether the segments are swapped, bool [B], and the segments in the order of the example."""
    ids, starts = chunks["input_ids"], chunks["sentence_starts"]
    place, coin = (numbers[:, 0] for numbers in uniform_pairs(keys, 1, stream=0))
    number = tf.cast(place * tf.cast(starts.row_lengths(), tf.float32), tf.int32)
    number = tf.minimum(number, starts.row_lengths() - 1)  # float32 may round up
    cut = tf.cast(tf.gather(starts.flat_values, starts.row_starts() + number), tf.int32)
    swapped = coin < 0.5
    begin, length = ids.row_starts(), ids.row_lengths()
    a = _Segment(begin + tf.where(swapped, cut, 0), tf.where(swapped, length - cut, cut))
    b = _Segment(begin + tf.where(swapped, 0, cut), length - a.length)
    return swapped, a, b


def _truncate(a: _Segment, b: _Segment, max_tokens: int, keys: tf.Tensor) -> tuple[_Segment, _Segment]:
    """`truncate_pair` of every example."""
    excess = tf.maximum(a.length + b.length - max_tokens, 0)
    difference = a.length - b.length
    alone = tf.minimum(excess, tf.abs(difference))
    from_a = (excess - alone) // 2 + tf.where(difference > 0, alone, 0)
    return _shorten(a, from_a, subkeys(keys, 2)), _shorten(b, excess - from_a, subkeys(keys, 3))


def _shorten(segment: _Segment, count: tf.Tensor, keys: tf.Tensor) -> _Segment:
    return _Segment(segment.begin + fair_binomial(keys, count), segment.length - count)


def _joined(
    chunks: dict[str, tf.RaggedTensor], a: _Segment, b: _Segment, max_seq_length: int, masking: DynamicMasking
) -> dict[str, tf.Tensor]:
    """[CLS] a [SEP] b [SEP] and padding; int32 [B, T] each."""
    place = tf.range(max_seq_length)[tf.newaxis]
    begin_a, length_a, begin_b, length_b = (values[:, tf.newaxis] for values in (*a, *b))
    begins_b = length_a + 2
    end = begins_b + length_b
    in_a = (place >= 1) & (place <= length_a)
    in_b = (place >= begins_b) & (place < end)
    is_text, is_real = in_a | in_b, place <= end
    source = tf.where(in_a, begin_a + place - 1, begin_b + place - begins_b)
    source = tf.where(is_text, source, 0)

    symbol = tf.where(place == 0, masking.cls_id, tf.where(is_real, masking.sep_id, 0))
    ids = tf.cast(tf.gather(chunks["input_ids"].flat_values, source), tf.int32)
    boundary = tf.cast(tf.gather(chunks["token_boundary"].flat_values, source), tf.int32)
    # Symbols and what follows them start a word, as in `token_boundary` of masking.py.
    is_start = ~is_text | (place == 1) | (place == begins_b)
    return {
        "input_ids": tf.where(is_text, ids, symbol),
        "input_mask": tf.cast(is_real, tf.int32),
        "token_type_ids": tf.cast((place >= begins_b) & is_real, tf.int32),
        "token_boundary": tf.where(is_real, tf.where(is_start, 1, boundary), 0),
    }
