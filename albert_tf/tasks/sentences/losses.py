"""The losses of sentence vectors, in `keras.ops`. Each needs the vectors of a whole batch.

B examples of C texts; `texts`: 1 for a text, 0 for padding; `prints`: numbers that only equal texts share.
"""

import numpy as np
from keras import ops

from albert_tf.model.sentence_vectors import normalized


def cosine_losses(vectors, scores):
    """The squared error of the cosine of two vectors (B, 2, D), float32 (B,), for scores (B,)."""
    vectors = normalized(vectors)
    return ops.square(ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1) - ops.cast(scores, "float32"))


def pair_losses(vectors, texts, prints, temperature: float, symmetric: bool):
    """Cross-entropy of the text that belongs to each first text among all others of the batch, (B,).

    The second texts of the batch and its negatives are the choices (van den Oord et al., 2018; Henderson et al.,
    2017), without those that equal one of the pair, or that belong to an equal first text.

    Args:
      vectors: float32 (B, C, D): first texts, second texts, negatives.
      texts: float32 (B, C).
      prints: int32 (B, C, 2).
      temperature: divides the cosines.
      symmetric: whether the loss is the mean with that of finding the first text by the second.
    """
    vectors = normalized(vectors)
    B, C = ops.shape(texts)

    def choices(array):
        return ops.reshape(array[:, 1:], (B * (C - 1), *array.shape[2:]))

    numbers, firsts, seconds = ops.arange(B * (C - 1)), prints[:, 0], prints[:, 1]
    own = _equal(ops.arange(B) * (C - 1), numbers)
    same = _same(firsts, choices(prints)) | _same(seconds, choices(prints))
    same |= _same(firsts, ops.repeat(firsts, C - 1, axis=0)) & ops.expand_dims(numbers % (C - 1) == 0, 0)
    allowed = ops.logical_not(same) & (ops.expand_dims(choices(texts), 0) > 0)
    losses = _contrast(vectors[:, 0], choices(vectors), own, allowed, temperature)
    if not symmetric:
        return losses
    same = _same(seconds, firsts) | _same(firsts, firsts) | _same(seconds, seconds)
    allowed = ops.logical_not(same) & (ops.expand_dims(texts[:, 0], 0) > 0)
    own = _equal(ops.arange(B), ops.arange(B))
    return (losses + _contrast(vectors[:, 1], vectors[:, 0], own, allowed, temperature)) / 2


def class_losses(vectors, texts, prints, groups, temperature: float):
    """The mean cross-entropy of the other texts of its class among all other texts of the batch, (B,).

    (Supervised contrastive learning, Khosla et al., 2020.) Equal texts are left out; a text without another one of
    its class has loss 0.

    Args:
      vectors: float32 (B, D).
      texts: float32 (B,).
      prints: int32 (B, 2).
      groups: int32 (B,), the numbers of the classes.
      temperature: divides the cosines.
    """
    allowed = ops.logical_not(_same(prints, prints)) & (ops.expand_dims(texts, 0) > 0)
    vectors = normalized(vectors)
    return _contrast(vectors, vectors, _equal(groups, groups) & allowed, allowed, temperature)


def text_prints(input_ids, input_mask, longest: int):
    """Numbers that only equal texts share, int32 (..., 2), of ids (..., T), however they are padded.

    Two sums of ids times random numbers, whose overflow is wanted: different texts hardly ever share both.

    Args:
      input_ids: integers (..., T).
      input_mask: likewise, 0 for padding.
      longest: the largest T.
    """
    numbers = np.random.default_rng(0).integers(-(2**31), 2**31, (2, longest)).astype(np.int32)
    factors = ops.convert_to_tensor(numbers)[:, : ops.shape(input_ids)[-1]]
    tokens = (ops.cast(input_ids, "int32") + 1) * ops.cast(input_mask, "int32")
    return ops.sum(ops.expand_dims(tokens, -2) * factors, axis=-1)


def _contrast(anchors, choices, positive, allowed, temperature: float):
    """The mean over the positive choices of -log softmax over these and the allowed ones, (B,); 0 without any."""
    logits = ops.matmul(anchors, ops.transpose(choices)) / temperature
    logits = ops.where(positive | allowed, logits, -1e9)
    positive = ops.cast(positive, "float32")
    losses = ops.logsumexp(logits, axis=-1, keepdims=True) - logits
    return ops.divide_no_nan(ops.sum(positive * losses, axis=-1), ops.sum(positive, axis=-1))


def _equal(rows, columns):
    return ops.expand_dims(rows, 1) == ops.expand_dims(columns, 0)


def _same(rows, columns):
    """Whether texts are equal, bool (M, N), by their prints (M, 2) and (N, 2)."""
    return ops.all(_equal(rows, columns), axis=-1)
