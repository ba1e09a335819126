"""The training and evaluation steps, over any tf.distribute strategy.

Keras `fit` is not used: it fails under several strategies as soon as one call runs several steps
(docs/architecture.md says which).

global batch -> a replica's part of it -> micro-batches --make_gradient_function--> gradients, summed -> update
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


def zero_sums() -> dict[str, tf.Tensor]:
    """What the function of `make_train_function` starts to add to."""
    return {name: tf.constant(0.0) for name in SUMS}


def make_train_function(
    model: AlbertPretrainer,
    optimizer: keras.optimizers.Optimizer,
    strategy: tf.distribute.Strategy,
    *,
    accumulation_steps: int = 1,
    jit_compile: bool = False,
) -> Callable:
    """A function (iterator, steps, sums) -> sums that takes `steps` optimizer steps in one call.

    The sums are `pretraining_sums` over all replicas and steps, added to those that were given;
    `pretraining_metrics` makes means of them. They are added step by step, so that how many steps a call
    takes does not show in them, not even in the last bit.

    Args:
      model: built under `strategy.scope()`, as the optimizer.
      optimizer: built for the model's trainable variables.
      strategy: its replicas share every batch.
      accumulation_steps: micro-batches that a replica's part of the batch is cut into, one after the other,
        to save memory. The gradient is that of the whole batch all the same.
      jit_compile: compile the forward and backward pass with XLA.
    """
    replica_step = make_replica_step(
        model, optimizer, accumulation_steps=accumulation_steps, jit_compile=jit_compile
    )

    @tf.function
    def train_steps(iterator, steps, sums):
        totals = tf.stack([sums[name] for name in SUMS])
        for _ in tf.range(steps):
            totals += _sum_replicas(strategy, strategy.run(replica_step, args=(next(iterator),)))
        return dict(zip(SUMS, tf.unstack(totals), strict=True))

    return train_steps


def make_replica_step(
    model: AlbertPretrainer,
    optimizer: keras.optimizers.Optimizer,
    *,
    accumulation_steps: int = 1,
    jit_compile: bool = False,
) -> Callable:
    """A function batch -> sums that takes one optimizer step on one replica's part of the global batch.

    For `strategy.run`, and for a compiler that wants the step alone (benchmarks/tpu_compile.py). The arguments
    are those of `make_train_function`; the sums are a float32 array in the order of `SUMS`.
    """
    gradient_function = make_gradient_function(model)
    if jit_compile:
        # Only this much: optimizer and all-reduce are not for XLA under every strategy.
        gradient_function = tf.function(gradient_function, jit_compile=True)

    def replica_step(batch):
        replicas = tf.distribute.get_replica_context()
        counts = replicas.all_reduce(
            tf.distribute.ReduceOp.SUM,
            [tf.reduce_sum(batch["masked_lm_weights"]), tf.reduce_sum(batch["sentence_order_weights"])],
        )
        weights = [variable.value for variable in model.trainable_variables]
        values = [tf.convert_to_tensor(weight) for weight in weights]
        seed, step = (
            tf.convert_to_tensor(model.encoder.seeds.state),
            tf.convert_to_tensor(optimizer.iterations),
        )
        first_stream = replicas.replica_id_in_sync_group * accumulation_steps

        def gradients_of(micro_batch, number):
            stream_seed = dropout_seed(seed, step, first_stream + number)
            return gradient_function(values, micro_batch, counts, stream_seed)

        gradients, sums = _accumulate(gradients_of, batch, accumulation_steps, values)
        gradients = replicas.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, CLIP_NORM)
        replicas.merge_call(_update, args=(optimizer, gradients, weights))
        return sums

    return replica_step


def make_gradient_function(model: AlbertPretrainer) -> Callable:
    """A pure function (weights, batch, counts, seed) -> gradients, sums.

    Args of that function:
      weights: the values of `model.trainable_variables`.
      batch: any part of a global batch.
      counts: the predictions and the pairs of the whole global batch. The loss is divided by those, so that
        the gradients of all parts add up to the gradient of the global batch, however it is cut.
      seed: int64 [2] of `dropout_seed`.

    Returns of that function: gradients, dense arrays like the weights; `pretraining_sums` as one float32
    array in the order of `SUMS`.
    """

    def gradient_function(weights, batch, counts, seed):
        predictions, pairs = counts
        # The values stand in for the variables: nothing is captured that differs between replicas, and the
        # state of the dropout is an argument, which XLA and every strategy can do.
        state = [*zip(model.trainable_variables, weights, strict=True), (model.encoder.seeds.state, seed)]
        with tf.GradientTape() as tape, keras.StatelessScope(state):
            tape.watch(weights)
            sums = pretraining_sums(model(batch, training=True), batch)
            loss = sums["masked_lm_loss"] / (predictions + 1e-5)
            loss += sums["sentence_order_loss"] / tf.maximum(pairs, 1.0)  # 0 / 1 with single segments only
        # Dense, since a sum of embedding lookups would take a different path through all-reduce and clipping.
        gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, weights)]
        return gradients, tf.stack([sums[name] for name in SUMS])

    return gradient_function


def dropout_seed(seed: tf.Tensor, step: tf.Tensor, stream: tf.Tensor) -> tf.Tensor:
    """The state that dropout starts from in one micro-batch; a pure function, so a resumed run has it again.

    Keras' generator alone would give every replica the same masks, since each has the same copy of its state.

    Args:
      seed: int64 [2], the model's own.
      step: how many optimizer steps have been taken.
      stream: number of the micro-batch among those of all replicas.

    Returns:
      int64 [2].
    """
    fold_in = tf.random.experimental.stateless_fold_in
    return fold_in(fold_in(seed, tf.cast(step, tf.int64)), tf.cast(stream, tf.int64))


def _accumulate(gradients_of: Callable, batch: dict, parts: int, weights: list) -> tuple[list, tf.Tensor]:
    """Adds up `gradients_of(micro_batch, number)` over the parts of a batch, one after the other."""
    if parts == 1:
        return gradients_of(batch, 0)
    cut = {name: tf.reshape(values, (parts, -1, *values.shape[1:])) for name, values in batch.items()}

    def add(number, gradients, sums):
        more_gradients, more_sums = gradients_of({name: cut[name][number] for name in cut}, number)
        gradients = [old + new for old, new in zip(gradients, more_gradients, strict=True)]
        return number + 1, gradients, sums + more_sums

    start = (tf.constant(0), [tf.zeros_like(weight) for weight in weights], tf.zeros(len(SUMS)))
    _, gradients, sums = tf.while_loop(
        lambda number, *_: number < parts, add, start, parallel_iterations=1, maximum_iterations=parts
    )
    return gradients, sums


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
        sums = pretraining_sums(model(batch, training=False), batch)
        return tf.stack([sums[name] for name in SUMS])

    @tf.function
    def eval_step(batch):
        sums = _sum_replicas(strategy, strategy.run(replica_step, args=(batch,)))
        return dict(zip(SUMS, tf.unstack(sums), strict=True))

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
