"""A model's outputs for a whole data set, over all devices of its strategy."""

from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf

from albert_tf.training.strategy import divide_batches


class Inference:
    """Runs a model forward, without dropout; builds its graph only once.

    Args:
      model: a `TaskModel`.

    Attributes:
      model: the same.
    """

    def __init__(self, model: keras.Model):
        self.model, self._strategy = model, model.distribute_strategy
        self._forward: dict[frozenset[str], Callable] = {}

        @tf.function(autograph=False)
        def step(iterator):
            outputs = self._strategy.run(self._outputs, args=(next(iterator),))
            if self._strategy.num_replicas_in_sync == 1:
                return outputs
            return {name: self._strategy.gather(value, axis=0) for name, value in outputs.items()}

        self._step = step

    def __call__(self, batches: tf.data.Dataset) -> Iterator[dict[str, np.ndarray]]:
        """The outputs of each batch, the same in all workers.

        Args:
          batches: from `bucketed_batches`; with several replicas, all of one size that the replicas can share
            equally.

        Yields:
          A dict of arrays (B, ...): the model's outputs, a single array as "output"; "index", the examples' row
          numbers; and if there are labels "loss" and "loss_weight", summed over each row.
        """
        if self._strategy.num_replicas_in_sync > 1:
            batch_size = batches.element_spec["index"].shape[0]
            iterator = iter(divide_batches(self._strategy, lambda: batches, batch_size))
        else:
            iterator = iter(batches)
        while True:
            try:
                outputs = self._step(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                return
            yield {name: value.numpy() for name, value in outputs.items()}

    def of_batch(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of a single batch, on one device."""
        names = frozenset(batch)
        if names not in self._forward:  # one graph for batches of any size and length, with or without labels
            specs = {name: tf.TensorSpec([None] * array.ndim, array.dtype) for name, array in batch.items()}
            self._forward[names] = tf.function(self._outputs, autograph=False, input_signature=[specs])
        tensors = {name: tf.constant(array) for name, array in batch.items()}
        return {name: value.numpy() for name, value in self._forward[names](tensors).items()}

    def _outputs(self, batch):
        found = self.model(batch, training=False)
        outputs = dict(found) if isinstance(found, dict) else {"output": found}
        y, weights = self.model.labels_of(batch, None, None)
        if _has_labels(y):
            losses = self.model.task_losses(y, found)
            weights = tf.broadcast_to(_with_axes_of(losses, weights), tf.shape(losses))
            outputs |= {"loss": _sum_of_rows(losses * weights), "loss_weight": _sum_of_rows(weights)}
        return outputs | {name: batch[name] for name in ("index",) if name in batch}


def _has_labels(y) -> bool:
    return "end_positions" in y if isinstance(y, dict) else y is not None


def _with_axes_of(losses, weights):
    """Weights (B,) or (B, T), reshaped for losses (B,) or (B, T); ones if `weights` is None."""
    if weights is None:
        return tf.ones_like(losses)
    missing = losses.shape.rank - weights.shape.rank
    return tf.reshape(weights, tf.concat([tf.shape(weights), [1] * missing], 0))


def _sum_of_rows(values):
    return tf.reduce_sum(values, axis=list(range(1, values.shape.rank)))
