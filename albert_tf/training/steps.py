"""The training and evaluation steps, over any tf.distribute strategy.

Keras `fit` is not used: it fails under several strategies as soon as one call runs several steps
(docs/architecture.md says which).
"""

from collections.abc import Callable, Iterable

import keras
import tensorflow as tf

from albert_tf.models import AlbertPretrainer, pretraining_metrics, pretraining_sums

CLIP_NORM = 1.0  # global norm of the gradient, as in the original

SUMS = (
    "masked_lm_loss",
    "masked_lm_correct",
    "masked_lm_weight",
    "sentence_order_loss",
    "sentence_order_correct",
    "sentence_order_weight",
    "examples",
)


def make_train_function(
    model: AlbertPretrainer, optimizer: keras.optimizers.Optimizer, strategy: tf.distribute.Strategy
) -> Callable:
    """A function (iterator, steps) -> sums that takes `steps` optimizer steps in one call.

    The sums are `pretraining_sums` over all replicas and steps; `pretraining_metrics` makes means of them.
    """

    def replica_step(batch):
        replicas = tf.distribute.get_replica_context()
        predictions, pairs = replicas.all_reduce(
            tf.distribute.ReduceOp.SUM,
            [tf.reduce_sum(batch["masked_lm_weights"]), tf.reduce_sum(batch["sentence_order_weights"])],
        )
        pairs = tf.maximum(pairs, 1.0)  # none where all examples are single segments
        with tf.GradientTape() as tape:
            sums = pretraining_sums(model(batch, training=True), batch)
            # Divided by the global counts, so that the replicas' gradients add up to the global batch's.
            loss = sums["masked_lm_loss"] / (predictions + 1e-5) + sums["sentence_order_loss"] / pairs
        weights = [variable.value for variable in model.trainable_variables]
        # Dense, since a sum of embedding lookups would take a different path through all-reduce and clipping.
        gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, weights)]
        gradients = replicas.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, CLIP_NORM)
        replicas.merge_call(_update, args=(optimizer, gradients, weights))
        return sums

    @tf.function
    def train_steps(iterator, steps):
        totals = {name: tf.constant(0.0) for name in SUMS}
        for _ in tf.range(steps):
            sums = strategy.run(replica_step, args=(next(iterator),))
            totals = {name: totals[name] + _sum_replicas(strategy, sums[name]) for name in SUMS}
        return totals

    return train_steps


def _update(strategy, optimizer, gradients, weights):
    """Applies gradients that are already summed over replicas, which `optimizer.apply` would sum again."""
    learning_rate = optimizer.learning_rate
    for weight, gradient in zip(weights, gradients, strict=True):
        strategy.extended.update(
            weight,
            lambda weight, gradient: optimizer.update_step(gradient, weight, learning_rate),
            args=(gradient,),
            group=False,
        )
    optimizer.iterations.assign_add(1)


def _sum_replicas(strategy, value):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)


def make_eval_function(model: AlbertPretrainer, strategy: tf.distribute.Strategy) -> Callable:
    """A function batch -> sums over all replicas, with dropout off."""

    def replica_step(batch):
        return pretraining_sums(model(batch, training=False), batch)

    @tf.function
    def eval_step(batch):
        sums = strategy.run(replica_step, args=(batch,))
        return {name: _sum_replicas(strategy, sums[name]) for name in SUMS}

    return eval_step


def evaluate(eval_step: Callable, batches: Iterable, max_steps: int | None = None) -> dict[str, float]:
    """Means over the examples of at most `max_steps` batches.

    Returns:
      `pretraining_metrics` under names prefixed with `eval_`, and `eval_examples`, how many there were.
    """
    totals = dict.fromkeys(SUMS, 0.0)
    for step, batch in enumerate(batches):
        if step == max_steps:
            break
        sums = eval_step(batch)
        totals = {name: totals[name] + float(sums[name]) for name in SUMS}
    metrics = {f"eval_{name}": value for name, value in pretraining_metrics(totals).items()}
    return {**metrics, "eval_examples": int(totals["examples"])}
