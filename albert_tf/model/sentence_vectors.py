"""One vector for a text from the vectors of its tokens."""

import keras
from keras import ops

from albert_tf.checkpoints.sentence_vectors import Pooling, SentenceVectors


def sentence_vectors(outputs: dict, input_mask, how: SentenceVectors):
    """The vectors of texts.

    Args:
      outputs: the encoder's.
      input_mask: integers (B, T), 0 for padding.
      how: pooling, the layer after it, and whether the vectors are normalized.

    Returns:
      float32 (B, H), or (B, D) after a dense layer.
    """
    vectors = pool(outputs, input_mask, how.pooling)
    if how.dense:
        vectors = ops.matmul(vectors, how.dense.kernel) + how.dense.bias
        vectors = keras.activations.get(how.dense.activation)(vectors)
    return normalized(vectors) if how.normalize else vectors


def pool(outputs: dict, input_mask, pooling: Pooling):
    """The encoder's outputs as one vector for each text, float32 (B, H)."""
    if pooling == "pooled":
        return ops.cast(outputs["pooled_output"], "float32")
    tokens = ops.cast(outputs["sequence_output"], "float32")  # (B, T, H)
    if pooling == "cls":
        return tokens[:, 0]
    weights = ops.expand_dims(ops.cast(input_mask, "float32"), -1)  # (B, T, 1)
    if pooling == "max":
        return ops.max(ops.where(weights > 0, tokens, -1e9), axis=1)
    if pooling == "weightedmean":
        weights = weights * ops.cumsum(ops.ones_like(weights), axis=1)
    return ops.sum(tokens * weights, axis=1) / ops.maximum(ops.sum(weights, axis=1), 1e-9)


def normalized(vectors):
    """Vectors (..., D) of length 1; zeros stay zeros."""
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    return ops.divide(vectors, ops.sqrt(ops.maximum(squares, 1e-24)))  # zeros have a finite gradient, too
