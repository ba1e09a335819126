"""What the models of all downstream tasks have in common: an encoder, a loss of their own, saving."""

import dataclasses
from pathlib import Path

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.encoder import AlbertEncoder
from albert_tf.pretrained.loading import load_pretrained
from albert_tf.training.replicas import number_of_replicas, sum_over_replicas


class TaskModel(keras.Model):
    """An encoder with a head.

    It takes dicts of arrays: `input_ids`, and `input_mask` and `token_type_ids` as `AlbertEncoder` does. Labels
    are Keras' `y`, or lie in the dict under `label_key`, with `sample_weight` beside. `compile` needs no loss:
    without one it is the task's, a mean over all weights of the batch, however many replicas share it and however
    much of it is padding.

    Args:
      encoder: what the head stands on; it is trained along.
      preprocessor: from strings to the dict, so that `fit`, `evaluate` and `predict` take strings; None for none.
      seed: seeds the head's weights and dropout; those of the encoder go on if there is none.
    """

    label_key = "label"

    def __init__(self, encoder: AlbertEncoder, *, preprocessor=None, seed: int | None = None, **kwargs):
        super().__init__(**{"dtype": encoder.dtype_policy, **kwargs})
        self.encoder = encoder
        self.preprocessor = preprocessor
        self.seed = seed
        self.seeds = encoder.seeds if seed is None else keras.random.SeedGenerator(seed, name="head_seeds")
        self.supports_jit = False  # XLA compiles for each length anew; compile(jit_compile=True) asks for it

    @classmethod
    def from_pretrained(
        cls, source: str | Path, *args, hidden_dropout: float | None = None, seed: int | None = None, **kwargs
    ):
        """A model on a pretrained encoder.

        Args:
          source: anything that `albert_tf.load_pretrained` reads.
          *args: of the class, after the encoder.
          **kwargs: of the class, too.
          hidden_dropout: in place of the encoder's own dropout, in its layers and on attention probabilities.
          seed: of the head's weights and of dropout.

        Raises:
          InputError: the source cannot be read.
        """
        encoder = load_pretrained(source, seed=seed).encoder
        if hidden_dropout is not None:
            encoder = with_dropout(encoder, hidden_dropout)
        return cls(encoder, *args, seed=seed, **kwargs)

    def task_losses(self, y, outputs):
        """The loss of each thing to predict.

        Args:
          y: the labels.
          outputs: of the model.

        Returns:
          float32 (B,) or (B, T).
        """
        raise NotImplementedError

    def labels_of(self, x, y, sample_weight):
        """Labels and weights, from the batch's dict where they are not given by themselves."""
        if y is None and isinstance(x, dict):
            y = x.get(self.label_key)
            sample_weight = x.get("sample_weight") if sample_weight is None else sample_weight
        return y, sample_weight

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The task's loss, unless `compile` was given one."""
        y, sample_weight = self.labels_of(x, y, sample_weight)
        if self.loss is not None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        losses = self.task_losses(y, y_pred)
        weights = ops.ones_like(losses)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "float32")
            missing = len(losses.shape) - len(sample_weight.shape)  # a weight a row of several things
            weights = weights * ops.reshape(sample_weight, ops.shape(sample_weight) + (1,) * missing)
        loss, weight = ops.sum(losses * weights), ops.sum(weights)
        if training:  # the replicas' gradients are added up
            return ops.divide_no_nan(loss, sum_over_replicas(weight))
        return ops.divide_no_nan(loss, weight) / number_of_replicas()  # Keras averages them by rows

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Keras' metrics, with the labels found as for the loss."""
        y, sample_weight = self.labels_of(x, y, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def get_config(self):
        return {
            "encoder": self.encoder.get_config(),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            "seed": self.seed,
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        dtype = keras.dtype_policies.deserialize(config.pop("dtype"))
        described = dict(config.pop("encoder"))
        shape = AlbertConfig.from_dict(described.pop("config"))
        encoder = AlbertEncoder(shape, **described, dtype=dtype)
        preprocessor = keras.saving.deserialize_keras_object(config.pop("preprocessor"))
        return cls(encoder, preprocessor=preprocessor, **config)


def with_dropout(encoder: AlbertEncoder, rate: float) -> AlbertEncoder:
    """The same encoder with another dropout, on hidden values and on attention probabilities."""
    config = dataclasses.replace(encoder.config, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate)
    changed = AlbertEncoder(
        config, seed=encoder.seed, remat=encoder.remat, name=encoder.name, dtype=encoder.dtype_policy
    )
    changed.set_weights(encoder.get_weights())
    return changed


def cross_entropy(labels, logits):
    """Of integers (...) and float32 logits (..., C), in nats, float32 (...)."""
    return ops.sparse_categorical_crossentropy(ops.cast(labels, "int32"), logits, from_logits=True)
