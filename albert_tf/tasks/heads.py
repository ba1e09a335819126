"""The linear head of the downstream tasks, a layer on the encoder's outputs (paper, section 4.1 and appendix)."""

import functools

import keras
from keras import ops

from albert_tf.checkpoints.heads import Head, to_task_model
from albert_tf.config import AlbertConfig
from albert_tf.model.layers import dense, dropout
from albert_tf.tasks.features import IMPOSSIBLE


class LinearHead(keras.layers.Layer):
    """Dropout and a linear layer: classes, a number, or a score from each vector.

    Args:
      units: C, the number of outputs.
      config: the model's shape.
      seeds: for the initial weights and the dropout masks.
      dropout_rate: of the dropout on the vectors.

    Call args:
      vectors: (..., H).

    Returns:
      float32 (..., C).
    """

    def __init__(self, units: int, config: AlbertConfig, seeds, dropout_rate: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.seeds, self.dropout_rate, self.hidden_size = seeds, dropout_rate, config.hidden_size
        self.output_dense = dense(units, config, seeds, name="output", dtype=self.dtype_policy)

    def build(self, input_shape):
        self.output_shape = (*input_shape[:-1], self.output_dense.units)
        self.output_dense.build((None, self.hidden_size))

    def call(self, vectors, training=False):
        vectors = dropout(vectors, self.dropout_rate, self.seeds, training)
        return ops.cast(self.output_dense(vectors), "float32")


def masked(logits, cannot_answer):
    """The logits, but `IMPOSSIBLE` where `cannot_answer` is 1."""
    # No product: in float16 files the constant is -inf, and 0 * -inf is NaN.
    return ops.where(ops.cast(cannot_answer, "bool"), IMPOSSIBLE, logits)


def set_head(layer: keras.layers.Layer, head: Head, config: AlbertConfig) -> None:
    """Sets the weights of a head, a built layer, to those that files hold."""
    for name, array in to_task_model(head, config).items():
        *path, _, number = name.split("/")  # .../vars/NUMBER
        functools.reduce(getattr, path, layer).weights[int(number)].assign(array)
