"""What fine-tuning minimizes, and the step of Keras `fit` for a batch that is computed in micro-batches."""

from collections.abc import Callable

import keras
import tensorflow as tf
from keras import ops

from albert_tf.tasks.replicas import replica_number, sum_over_replicas
from albert_tf.training.tensorflow_steps import Gradients


class TaskObjective:
    """A task's loss as an `Objective` (albert_tf/training/steps.py).

    Args:
      model: a `TaskModel`.
      scale: multiplies the loss that is differentiated.
    """

    names = ("loss", "loss_weight")

    def __init__(self, model, scale: Callable = lambda loss: loss):
        self.model, self._scale = model, scale

    def counts(self, batch) -> list:
        """The sum of the weights of the losses."""
        return [self.model.loss_weight(*keras.utils.unpack_x_y_sample_weight(batch))]

    def loss_and_sums(self, batch, counts: list) -> tuple:
        """The part's share of the weighted mean of the losses; the sums of losses and of weights."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        part = x, y, self.model(x, training=True), sample_weight
        count, *others = counts
        if others:
            total, sums = self.model.loss_in_parts(*part, *others)
        else:
            total, _ = sums = self.model.loss_sums(*part)
        return self._scale(ops.divide_no_nan(total, count)), ops.stack(sums)

    def needs_rows(self, batch) -> bool:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        return self.model.depends_on_batch(x, y)

    def rows(self, batch) -> dict:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        return self.model.rows(x, y, self.model(x, training=True), sample_weight)


def accumulated_step(model, data) -> dict:
    """One step of `fit` whose gradient is that of the whole batch; only its dropout masks depend on the parts.

    Keras' optimizers can accumulate, too, but take the mean over equal parts: here parts count by the weights of
    their examples, the sum is clipped, and a step is one step of the schedule.

    Args:
      model: a `TaskModel` that is compiled with its own loss and without metrics.
      data: as for `train_step`; a replica's share of the batch.

    Returns:
      The metrics, as `train_step`.

    Raises:
      ValueError: the model is compiled with another loss or with metrics, or has regularizers or added losses.
    """
    if model.losses:
        raise ValueError(
            "`gradient_accumulation_steps` needs the task's loss alone. Received a model with regularizers or "
            "losses of `add_loss`."
        )
    if model.loss is not None or len(model.metrics) > 1:
        raise ValueError(
            "`gradient_accumulation_steps` needs the model's own loss and no metrics. Received "
            f"`loss` {model.loss} and metrics {[metric.name for metric in model.metrics[1:]]} in `compile`."
        )
    objective = TaskObjective(model, model.optimizer.scale_loss)
    weight = sum_over_replicas(objective.counts(data)[0])
    gradients, sums = Gradients(objective, accumulation_steps=model.gradient_accumulation_steps)(
        data, [weight], tf.convert_to_tensor(model.optimizer.iterations), replica_number()
    )
    model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    (loss,) = model.metrics
    rows = tf.shape(tf.nest.flatten(data)[0])[0]
    loss.update_state(tf.math.divide_no_nan(sum_over_replicas(sums[0]), weight), sample_weight=rows)
    return model.get_metrics_result()
