"""A model's outputs for a whole data set, over all devices."""

from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from albert_tf.training.devices import Devices
from albert_tf.training.tensorflow_devices import TensorFlowDevices


class Inference:
    """Runs a model forward, without dropout; builds its graph only once.

    Args:
      model: a `TaskModel`.
      devices: the model was created under their scope. Default: those of its strategy.

    Attributes:
      model: the same.
    """

    def __init__(self, model: keras.Model, devices: Devices | None = None):
        self.model, self._devices = model, devices or TensorFlowDevices(model.distribute_strategy)
        self._forward: dict[frozenset, Callable] = {}
        self._rows_of = self._devices.gathered(self._outputs, model)

    def __call__(self, batches: tf.data.Dataset) -> Iterator[dict[str, np.ndarray]]:
        """The outputs of each batch, the same in all workers.

        Args:
          batches: from `bucketed_batches`; with several replicas, all of one size that the replicas can share
            equally.

        Returns:
          Dicts of arrays (B, ...): the model's outputs, a single array as "output"; "index", the examples' row
          numbers; and if there are labels "loss" and "loss_weight", summed over each row.
        """
        if self._devices.replicas > 1:
            batch_size = batches.element_spec["index"].shape[0]
            return self._rows_of(self._devices.divide(lambda: batches, batch_size))
        return self._rows_of(batches)

    def of_batch(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of a single batch, on one device."""
        key = frozenset((name, array.ndim) for name, array in batch.items())
        if key not in self._forward:  # one graph for batches of any size and length, with or without labels
            specs = {name: tf.TensorSpec([None] * array.ndim, array.dtype) for name, array in batch.items()}
            self._forward[key] = tf.function(self._outputs, autograph=False, input_signature=[specs])
        tensors = {name: tf.constant(array) for name, array in batch.items()}
        return {name: value.numpy() for name, value in self._forward[key](tensors).items()}

    def _outputs(self, batch):
        found = self.model(batch, training=False)
        outputs = dict(found) if isinstance(found, dict) else {"output": found}
        y, weights = self.model.labels_of(batch, None, None)
        if _has_labels(y):
            losses = self.model.task_losses(y, found)
            weights = ops.broadcast_to(_with_axes_of(losses, weights), ops.shape(losses))
            outputs |= {"loss": _sum_of_rows(losses * weights), "loss_weight": _sum_of_rows(weights)}
        return outputs | {name: batch[name] for name in ("index",) if name in batch}


def _has_labels(y) -> bool:
    return "end_positions" in y if isinstance(y, dict) else y is not None


def _with_axes_of(losses, weights):
    """Weights (B,) or (B, T), reshaped for losses (B,) or (B, T); ones if `weights` is None."""
    if weights is None:
        return ops.ones_like(losses)
    missing = len(losses.shape) - len(weights.shape)
    return ops.reshape(weights, (*ops.shape(weights), *[1] * missing))


def _sum_of_rows(values):
    return ops.sum(values, axis=list(range(1, len(values.shape))))
