"""The step of Keras `fit` for a batch that is computed in micro-batches."""

import keras
import tensorflow as tf

from albert_tf.finetuning.replicas import sum_over_replicas
from albert_tf.training.micro_batches import dropout_seed, sum_over_micro_batches


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
      ValueError: the model is compiled with another loss or with metrics.
    """
    if model.loss is not None or len(model.metrics) > 1:
        raise ValueError(
            "`gradient_accumulation_steps` needs the model's own loss and no metrics. Received "
            f"`loss` {model.loss} and metrics {[metric.name for metric in model.metrics[1:]]} in `compile`."
        )
    variables = model.trainable_variables
    gradients, sums = _sums(model, variables, keras.utils.unpack_x_y_sample_weight(data))
    total, weight = tf.unstack(sum_over_replicas(sums))
    pairs = [
        (None if gradient is None else tf.math.divide_no_nan(gradient, weight), variable)
        for gradient, variable in zip(gradients, variables, strict=True)
    ]
    model.optimizer.apply_gradients(pairs)
    (loss,) = model.metrics
    rows = tf.shape(tf.nest.flatten(data)[0])[0]
    loss.update_state(tf.math.divide_no_nan(total, weight), sample_weight=rows)
    return model.get_metrics_result()


def _sums(model, variables: list, batch: tuple) -> tuple[list, tf.Tensor]:
    """The gradients of the sum of the losses, None where there is none; the sums of losses and weights, (2,)."""
    values = [tf.convert_to_tensor(variable) for variable in variables]
    step = tf.convert_to_tensor(model.optimizer.iterations)
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    generators = list({id(seeds): seeds for seeds in (model.encoder.seeds, model.seeds)}.values())
    seed_states = [tf.convert_to_tensor(seeds.state) for seeds in generators]
    unused = set[int]()  # parts that the task does not use, such as the pooler, have no gradient

    def gradients_of(micro_batch, number):
        x, y, sample_weight = micro_batch
        first = (replica * model.gradient_accumulation_steps + number) * len(generators)
        # Values replace variables and dropout states: the loop assigns nothing, which replicas could not do in it.
        state = list(zip(variables, values, strict=True))
        for i, (seeds, seed) in enumerate(zip(generators, seed_states, strict=True)):
            state.append((seeds.state, dropout_seed(seed, step, first + i)))
        with tf.GradientTape() as tape, keras.StatelessScope(state):
            tape.watch(values)
            total, weight = model.loss_sums(x, y, model(x, training=True), sample_weight)
            scaled = model.optimizer.scale_loss(total)
        gradients = tape.gradient(scaled, values)
        unused.update(i for i, gradient in enumerate(gradients) if gradient is None)
        dense = [
            tf.zeros_like(value) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, value in zip(gradients, values, strict=True)
        ]
        return dense, tf.stack([total, weight])

    zeros = ([tf.zeros_like(value) for value in values], tf.zeros(2))
    gradients, sums = sum_over_micro_batches(gradients_of, batch, model.gradient_accumulation_steps, zeros)
    return [None if i in unused else gradient for i, gradient in enumerate(gradients)], sums
