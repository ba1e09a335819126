"""The heads of SQuAD 1.1 and 2.0, layers on the encoder's outputs (paper, section 4.1 and appendix)."""

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.model.layers import dense, dropout, gather_positions, layer_norm, make_kernels
from albert_tf.tasks.features import IMPOSSIBLE
from albert_tf.tasks.heads import LinearHead, masked


class SpanHead(keras.layers.Layer):
    """Scores each token as the start and as the end of the answer (SQuAD 1.1).

    Call args:
      sequence_output: (B, T, H).
      cannot_answer: (B, T), 1 for tokens that cannot be part of an answer.

    Returns:
      A dict of float32 (B, T): `start_logits` and `end_logits`, `IMPOSSIBLE` for those tokens.
    """

    def __init__(self, config: AlbertConfig, seeds, **kwargs):
        super().__init__(**{"name": "span", **kwargs})
        self.scores = LinearHead(2, config, seeds, name="scores", dtype=self.dtype_policy)

    def build(self, input_shape=None):
        self.output_shape = (None, None, 2)
        self.scores.build(input_shape)

    def call(self, sequence_output, cannot_answer):
        scores = self.scores(sequence_output)  # (B, T, 2)
        return {
            "start_logits": masked(scores[:, :, 0], cannot_answer),
            "end_logits": masked(scores[:, :, 1], cannot_answer),
        }


class ConditionalSpanHead(keras.layers.Layer):
    """Scores starts, ends given a start, and whether there is an answer (SQuAD 2.0).

    The logit of a start depends on its token; that of an end on its token and the start's; the answerability on
    [CLS] and the mean of the tokens, weighted by their probabilities of being the start.

    Args:
      config: the model's shape.
      seeds: for the initial weights and the dropout masks.
      beam: K, the number of starts that the search tries.
      end_beam: J, the number of ends for each start; default: K.
      dropout_rate: before the last layer of the answerability.

    Call args:
      sequence_output: (B, T, H), [CLS] first.
      cannot_answer: (B, T), 1 for tokens that cannot be part of an answer.
      start_positions: integers (B,), the starts for the ends' logits; optional.
      search: whether to search for the K best starts and the J best ends of each.

    Returns:
      A dict of float32 arrays: `answerable_logits` (B,), above 0 if there is an answer; with `start_positions`
      `start_logits` and `end_logits` (B, T), the latter given these starts; with `search` `start_top_log_probs`
      (B, K) and `end_top_log_probs` (B, K*J), the ends of the first start first, and their tokens, int32
      `start_top_index` and `end_top_index`.
    """

    def __init__(
        self,
        config: AlbertConfig,
        seeds,
        beam: int = 5,
        end_beam: int | None = None,
        dropout_rate: float = 0.1,
        **kwargs,
    ):
        super().__init__(**{"name": "span", **kwargs})
        H, dtype = config.hidden_size, self.dtype_policy
        self.seeds, self.hidden_size, self.dropout_rate = seeds, H, dropout_rate
        self.beam, self.end_beam = beam, end_beam or beam
        self.start = LinearHead(1, config, seeds, name="start", dtype=dtype)
        # One layer on [token, start] in two halves: the token's half is computed once for all starts.
        self.end_token = dense(H, config, seeds, name="end_token", dtype=dtype)
        self.end_start = dense(H, config, seeds, name="end_start", dtype=dtype, use_bias=False)
        self.layer_norm = layer_norm(config, make_kernels(), dtype=dtype)
        self.end = LinearHead(1, config, seeds, name="end", dtype=dtype)
        self.answerable = dense(H, config, seeds, name="answerable", dtype=dtype, activation="tanh")
        self.answerable_output = dense(
            1, config, seeds, name="answerable_output", dtype=dtype, use_bias=False
        )

    def build(self, input_shape=None):
        H = self.hidden_size
        self.output_shape = (None, None, 2)
        for layer in (self.start, self.end_token, self.end_start, self.layer_norm, self.end):
            layer.build((None, H))
        self.answerable_output.build((None, H))
        self.answerable.build((None, 2 * H))

    def call(self, sequence_output, cannot_answer, start_positions=None, search=False, training=False):
        start_logits = masked(self.start(sequence_output)[:, :, 0], cannot_answer)
        outputs = {"answerable_logits": self._answerable(sequence_output, start_logits, training)}
        if start_positions is not None:
            starts = ops.expand_dims(start_positions, 1)
            ends = self._end_logits(sequence_output, cannot_answer, starts, training)  # (B, 1, T)
            outputs |= {"start_logits": start_logits, "end_logits": ends[:, 0]}
        if search:
            outputs |= self._search(sequence_output, cannot_answer, start_logits)
        return outputs

    def _end_logits(self, sequence_output, cannot_answer, starts, training=False):
        """The logits (B, K, T) of ends, given starts (B, K)."""
        T, K, H = ops.shape(sequence_output)[1], ops.shape(starts)[1], self.hidden_size
        token_half = ops.reshape(self.end_token(sequence_output), (-1, 1, T, H))
        start_half = self.end_start(gather_positions(sequence_output, starts))
        hidden = ops.tanh(token_half + ops.reshape(start_half, (-1, K, 1, H)))
        hidden = self.layer_norm(ops.reshape(hidden, (-1, H)), training=training)
        logits = ops.reshape(self.end(hidden), (-1, K, T))
        return masked(logits, ops.expand_dims(cannot_answer, 1))

    def _search(self, sequence_output, cannot_answer, start_logits):
        K, J, last = self.beam, self.end_beam, ops.shape(sequence_output)[1] - 1
        start_log_probs, starts = _best(start_logits, K)
        starts = ops.minimum(starts, last)
        ends = self._end_logits(sequence_output, cannot_answer, starts)
        end_log_probs, ends = _best(ends, J)  # (B, K, J)
        return {
            "start_top_log_probs": start_log_probs,
            "start_top_index": starts,
            "end_top_log_probs": ops.reshape(end_log_probs, (-1, K * J)),
            "end_top_index": ops.reshape(ops.minimum(ends, last), (-1, K * J)),
        }

    def _answerable(self, sequence_output, start_logits, training):
        probabilities = ops.cast(ops.softmax(start_logits), sequence_output.dtype)
        start = ops.squeeze(ops.matmul(ops.expand_dims(probabilities, 1), sequence_output), 1)  # (B, H)
        hidden = self.answerable(ops.concatenate([start, sequence_output[:, 0]], axis=-1))
        hidden = dropout(hidden, self.dropout_rate, self.seeds, training)
        return ops.cast(self.answerable_output(hidden), "float32")[:, 0]


def _best(logits, k: int):
    """The k largest log probabilities of the last axis and their positions, (..., k); padded if T < k."""
    log_probs = ops.log_softmax(logits)
    padding = [(0, 0)] * (len(logits.shape) - 1) + [(0, k)]
    best, where = ops.top_k(ops.pad(log_probs, padding, constant_values=IMPOSSIBLE), k)
    return best, ops.cast(where, "int32")
