"""Sliding windows over long contexts as TensorFlow ops, equal to `albert_tf.tasks.spans.windows`."""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.tasks.spans.features import QuestionPreprocessor
from data_prep.in_graph import GraphTokenizer
from data_prep.tokenizers.vocabulary import Tokenizer

_SYMBOLS = 3  # [CLS] and two [SEP]


class Windows(NamedTuple):
    """W windows of T tokens over the contexts of B questions, in the questions' order.

    Attributes:
      batch: `input_ids`, `input_mask`, `token_type_ids` and `p_mask`, int32 (W, T).
      rows: int32 (W,), the question of each window; each question has at least one.
      begins, ends: int32 (W, T), where each token begins and ends in the context, in bytes; -1 for other tokens.
      is_max_context: bool (W, T), whether the window gives the token more context on both sides than others do.
    """

    batch: dict[str, tf.Tensor]
    rows: tf.Tensor
    begins: tf.Tensor
    ends: tf.Tensor
    is_max_context: tf.Tensor


class GraphWindows(tf.Module):
    """`QuestionPreprocessor` as TensorFlow ops.

    Args:
      graph: the tokenizer as TensorFlow ops.
      tokenizer: has the symbols.
      preprocessor: has the lengths.
    """

    def __init__(self, graph: GraphTokenizer, tokenizer: Tokenizer, preprocessor: QuestionPreprocessor):
        super().__init__()
        self._graph = graph
        self._cls_id, self._sep_id, self._pad_id = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
        self._max_seq_length = preprocessor.max_seq_length
        self._max_query_length = preprocessor.max_query_length
        self._stride = preprocessor.doc_stride

    def __call__(self, questions: tf.Tensor, contexts: tf.Tensor) -> Windows:
        """The windows of questions and contexts, string (B,)."""
        queries = self._graph.tokenize(questions)[:, : self._max_query_length]
        tokens = self._graph.tokenize_with_offsets(contexts)
        lengths = tf.cast(tokens.ids.row_lengths(), tf.int32)
        room = self._max_seq_length - 3 - tf.cast(queries.row_lengths(), tf.int32)
        counts = 1 + -(-tf.maximum(lengths - room, 0) // self._stride)

        rows = tf.repeat(tf.range(tf.size(counts)), counts)
        number = tf.ragged.range(counts).values  # of each window, among the windows of its question
        begins = number * self._stride
        ends = tf.minimum(begins + tf.gather(room, rows), tf.gather(lengths, rows))
        positions = tf.ragged.range(begins, ends)  # in the context, int32 (W, (T))
        first = tf.gather(tf.cast(tokens.ids.row_splits, tf.int32), rows)
        places = positions + first[:, tf.newaxis]  # among the tokens of all contexts
        is_max = _is_max_context(places, positions, begins, ends, tf.size(tokens.ids.values))

        queries = tf.gather(queries, rows)
        ids = self._ids(queries, tf.gather(tokens.ids.values, places))
        T = tf.maximum(tf.reduce_max(ids.row_lengths()), _SYMBOLS)  # the maximum of no rows is negative
        shape = tf.stack([ids.nrows(), T])
        column = tf.range(T)[tf.newaxis]
        context_begin = queries.row_lengths()[:, tf.newaxis] + 2
        is_token = column < ids.row_lengths()[:, tf.newaxis]
        is_context = (column >= context_begin) & (column < ids.row_lengths()[:, tf.newaxis] - 1)

        def laid_out(values: tf.RaggedTensor, outside):
            """Values of the contexts' tokens, (W, (T)), placed in their columns, (W, T)."""
            dense = tf.fill(shape, tf.constant(outside, values.dtype))
            return tf.tensor_scatter_nd_update(dense, tf.where(is_context), values.values)

        batch = {
            "input_ids": ids.to_tensor(self._pad_id, shape=shape),
            "input_mask": tf.cast(is_token, tf.int32),
            "token_type_ids": tf.cast(is_token & (column >= context_begin), tf.int32),
            "p_mask": tf.cast(~(is_context | (column == 0)), tf.int32),
        }
        begins, ends = (
            laid_out(tf.cast(tf.gather(side.values, places), tf.int32), -1)
            for side in (tokens.begins, tokens.ends)
        )
        return Windows(batch, rows, begins, ends, laid_out(is_max, False))

    def _ids(self, queries: tf.RaggedTensor, contexts: tf.RaggedTensor) -> tf.RaggedTensor:
        W = queries.nrows()
        cls_id, sep_id = (tf.fill([W, 1], tf.constant(i, tf.int32)) for i in (self._cls_id, self._sep_id))
        return tf.concat([cls_id, queries, sep_id, contexts, sep_id], axis=1)


def _is_max_context(
    places: tf.RaggedTensor, positions: tf.RaggedTensor, begins: tf.Tensor, ends: tf.Tensor, count: tf.Tensor
) -> tf.RaggedTensor:
    """Whether no other window has a token with more context, bool (W, (T)); the earlier window wins a tie.

    Args:
      places: the index of each window's tokens among the tokens of all contexts, int32 (W, (T)).
      positions: their index in their own context.
      begins: where the windows begin in their context, int32 (W,).
      ends: where they end.
      count: the number of tokens in all contexts.
    """
    window = tf.cast(places.value_rowids(), tf.int32)
    begin, end = tf.gather(begins, window), tf.gather(ends, window)
    shorter = tf.minimum(positions.values - begin, end - 1 - positions.values)
    scores = tf.cast(shorter, tf.float64) + 0.01 * tf.cast(end - begin, tf.float64)
    best = tf.gather(tf.math.unsorted_segment_max(scores, places.values, count), places.values)
    candidates = tf.where(scores == best, window, tf.int32.max)
    first = tf.gather(tf.math.unsorted_segment_min(candidates, places.values, count), places.values)
    return places.with_values(window == first)
