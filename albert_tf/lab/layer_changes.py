"""How far each layer moves its input (paper, Figure 1).

B batch, T tokens, H hidden, L layers.
"""

import itertools
import math

import numpy as np
import tensorflow as tf
from keras import ops

from albert_tf.model.encoder import AlbertEncoder

MEASURES = ("l2", "cosine", "degrees")
_BATCH = 4  # all layers' outputs are kept until a batch is measured
_TINY = 1e-30  # avoids dividing by 0: a zero vector has no direction and counts as angle 0


def layer_changes(encoder: AlbertEncoder, input_ids: np.ndarray) -> np.ndarray:
    """The distances between each layer's input and output, without dropout.

    Args:
      encoder: a model.
      input_ids: (B, T) without padding: [CLS], text and [SEP]. The two symbols are read but do not count.

    Returns:
      Means over the counted tokens, float64 (L, 3), in the order of MEASURES: L2 distance, cosine similarity, and
      angle in degrees.
    """

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, input_ids.shape[1]], tf.int32)])
    def sums(batch):
        return _sums(encoder({"input_ids": batch}, training=False, intermediates=True))

    batches = (input_ids[i : i + _BATCH].astype(np.int32) for i in range(0, len(input_ids), _BATCH))
    total = sum(np.asarray(sums(batch), np.float64) for batch in batches)
    return np.asarray(total) / input_ids[:, 1:-1].size


def _sums(outputs: dict):
    """The sums (L, 3) over all tokens but the first and the last of each row."""
    states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    states = [ops.cast(state[:, 1:-1], "float32") for state in states]
    pairs = itertools.pairwise(states)
    return ops.stack([ops.stack([ops.sum(m) for m in _measures(x, y)]) for x, y in pairs])


def _measures(x, y) -> tuple:
    """L2 distance, cosine similarity and angle of vectors (B, T, H), each (B, T).

    The angle is not computed from the cosine, which in float32 cannot represent angles below 0.02 degrees.
    """
    u, v = _unit(x), _unit(y)
    angle = 2.0 * ops.arctan2(ops.norm(u - v, axis=-1), ops.norm(u + v, axis=-1))
    return ops.norm(x - y, axis=-1), ops.sum(u * v, axis=-1), angle * (180.0 / math.pi)


def _unit(x):
    return x / ops.maximum(ops.norm(x, axis=-1, keepdims=True), _TINY)
