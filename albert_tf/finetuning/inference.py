"""A model's outputs for a whole data set, over all devices of its strategy."""

from collections.abc import Callable, Iterable, Iterator

import keras
import numpy as np
import tensorflow as tf


class Inference:
    """Runs a model forward, without dropout; builds its graph only once.

    Args:
      model: a `TaskModel`.
    """

    def __init__(self, model: keras.Model):
        self._strategy = model.distribute_strategy

        def replica_step(batch):
            given = model(batch, training=False)
            outputs = dict(given) if isinstance(given, dict) else {"output": given}
            y, weights = model.labels_of(batch, None, None)
            if _has_labels(y):
                losses = model.task_losses(y, given)
                weights = tf.broadcast_to(_as_wide(weights, losses), tf.shape(losses))
                outputs |= {"loss": _of_rows(losses * weights), "loss_weight": _of_rows(weights)}
            return {**outputs, "index": batch["index"]}

        @tf.function(autograph=False)
        def step(iterator):
            return self._strategy.run(replica_step, args=(next(iterator),))

        self._step = step
        self._replica_step = replica_step
        self._forward: Callable | None = None

    def of_batch(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of a single batch, on one device."""
        if self._forward is None:  # one graph for batches of any size and length
            specs = {
                name: tf.TensorSpec([None] * values.ndim, values.dtype) for name, values in batch.items()
            }
            self._forward = tf.function(self._replica_step, autograph=False, input_signature=[specs])
        return {name: value.numpy() for name, value in self._forward(_as_tensors(batch)).items()}

    def __call__(self, batches: tf.data.Dataset) -> Iterator[dict[str, np.ndarray]]:
        """The outputs of each replica's part of each batch.

        Args:
          batches: from `bucketed_batches`.

        Yields:
          A dict of arrays (B, ...): the model's outputs, a single array as "output"; "index", the examples' row
          numbers; and if there are labels "loss" and "loss_weight", summed over each row.
        """
        iterator = iter(self._strategy.experimental_distribute_dataset(batches))
        while True:
            try:
                outputs = self._step(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                return
            parts = {
                name: self._strategy.experimental_local_results(value) for name, value in outputs.items()
            }
            for part in range(self._strategy.num_replicas_in_sync):
                yield {name: values[part].numpy() for name, values in parts.items()}


def by_row(outputs: Iterable[dict[str, np.ndarray]], number: int) -> list[dict[str, np.ndarray]]:
    """The outputs of `Inference`, as one dict for each of `number` examples, in their order."""
    rows: list[dict[str, np.ndarray]] = [{} for _ in range(number)]
    for batch in outputs:
        for place, row in enumerate(batch["index"]):
            if row >= 0:
                rows[row] = {name: values[place] for name, values in batch.items() if name != "index"}
    assert all(rows), "every example is in a batch"
    return rows


def mean_loss(rows: list[dict[str, np.ndarray]]) -> float:
    """The loss of a data set, independent of its batches."""
    return float(sum(row["loss"] for row in rows) / sum(row["loss_weight"] for row in rows))


def _as_tensors(batch: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(values) for name, values in batch.items()}


def _has_labels(y) -> bool:
    return "end_positions" in y if isinstance(y, dict) else y is not None


def _as_wide(weights, losses):
    """Weights (B,) or (B, T) beside losses (B,) or (B, T)."""
    if weights is None:
        return tf.ones_like(losses)
    return tf.reshape(
        weights, tf.concat([tf.shape(weights), [1] * (losses.shape.rank - weights.shape.rank)], 0)
    )


def _of_rows(values):
    return tf.reduce_sum(values, axis=list(range(1, values.shape.rank)))
