"""The training and evaluation steps, over any tf.distribute strategy.

Keras `fit` is not used: it fails under several strategies as soon as one call runs several steps
(docs/architecture.md says which).

global batch -> a replica's part of it -> micro-batches --make_gradient_function--> gradients, summed -> update
"""

from collections.abc import Callable, Iterable

import keras
import tensorflow as tf

from albert_tf.model.formulas import formulas_compiled_by
from albert_tf.model.pretrainer import AlbertPretrainer, pretraining_metrics, pretraining_sums
from albert_tf.optimizers import CLIP_NORM, Lamb
from albert_tf.pretraining.formula_compiler import formula_compiler

SUMS = (
    "masked_lm_loss",
    "masked_lm_correct",
    "masked_lm_weight",
    "sentence_order_loss",
    "sentence_order_correct",
    "sentence_order_weight",
    "examples",
)
# What a training step adds to those: 1 and 0 for a step that was taken, 0 and 1 for one that was skipped; the
# gradient's norm before clipping; seconds that the step waited for its batch.
STEP_SUMS = ("steps", "skipped_steps", "gradient_norm", "input_wait")


def zero_sums() -> dict[str, tf.Tensor]:
    """What the function of `make_train_function` starts to add to."""
    return {name: tf.constant(0.0) for name in (*SUMS, *STEP_SUMS)}


def make_train_function(
    model: AlbertPretrainer,
    optimizer: keras.optimizers.Optimizer,
    strategy: tf.distribute.Strategy,
    *,
    accumulation_steps: int = 1,
    parts_at_once: int = 1,
    jit_compile: bool = False,
) -> Callable:
    """A function (iterator, steps, sums) -> sums that takes `steps` optimizer steps in one call.

    The sums are `pretraining_sums` over all replicas and steps, added to those that were given;
    `pretraining_metrics` makes means of them. They are added step by step, so that how many steps a call
    takes does not show in them, not even in the last bit.

    A step whose loss or gradient is not finite changes neither weights nor moments and adds nothing to the
    sums but a count (`STEP_SUMS`); it is counted in `optimizer.iterations` all the same, so that the next step
    has other examples.

    Args:
      model: built under `strategy.scope()`, as the optimizer.
      optimizer: built for the model's trainable variables.
      strategy: its replicas share every batch.
      accumulation_steps: micro-batches that a replica's part of the batch is cut into, one after the other,
        to save memory. The gradient is that of the whole batch all the same.
      parts_at_once: parts that a micro-batch is cut into, computed at the same time, see cores.py.
      jit_compile: compile the forward and backward pass with XLA.
    """
    replica_step = make_replica_step(
        model,
        optimizer,
        accumulation_steps=accumulation_steps,
        parts_at_once=parts_at_once,
        jit_compile=jit_compile,
    )

    @tf.function
    def train_steps(iterator, steps, sums):
        totals = tf.stack([sums[name] for name in (*SUMS, *STEP_SUMS)])
        for _ in tf.range(steps):
            batch, waited = _next_batch(iterator, totals)
            of_step = _sum_replicas(strategy, strategy.run(replica_step, args=(batch,)))
            totals += tf.concat([of_step, [waited]], axis=0)
        return dict(zip((*SUMS, *STEP_SUMS), tf.unstack(totals), strict=True))

    return train_steps


def make_replica_step(
    model: AlbertPretrainer,
    optimizer: keras.optimizers.Optimizer,
    *,
    accumulation_steps: int = 1,
    parts_at_once: int = 1,
    jit_compile: bool = False,
) -> Callable:
    """A function batch -> sums that takes one optimizer step on one replica's part of the global batch.

    For `strategy.run`, and for a compiler that wants the step alone (experiments/tpu_compile.py). The arguments
    are those of `make_train_function`; the sums are a float32 array in the order of `SUMS` and `STEP_SUMS`,
    without the last of those, which the caller knows.
    """
    gradient_function = make_gradient_function(model, None if jit_compile else formula_compiler())
    if jit_compile:
        # Only this much: optimizer and all-reduce are not for XLA under every strategy.
        gradient_function = tf.function(gradient_function, jit_compile=True)
    elif accumulation_steps > 1 or parts_at_once > 1:
        # A call that is not inlined: of long sums of gradients inside two loops, TensorFlow 2.21 makes temporary
        # variables that the second step finds still there, and fails.
        gradient_function = tf.function(gradient_function, experimental_attributes={"_noinline": True})
    if parts_at_once > 1:
        gradient_function = _at_once(gradient_function, parts_at_once)

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
        # With their sums, so that all replicas agree on what is finite.
        *gradients, total = replicas.all_reduce(tf.distribute.ReduceOp.SUM, [*gradients, tf.reduce_sum(sums)])
        gradients, norm = tf.clip_by_global_norm(gradients, CLIP_NORM)
        finite = tf.math.is_finite(norm) & tf.math.is_finite(total)
        replicas.merge_call(_update, args=(optimizer, gradients, weights, finite))
        taken = tf.cast(finite, tf.float32)
        of_step = tf.stack([taken, 1 - taken, tf.where(finite, norm, 0.0)])
        # The same on every replica, so that only the first one adds it.
        of_step *= tf.cast(tf.equal(replicas.replica_id_in_sync_group, 0), tf.float32)
        return tf.concat([tf.where(finite, sums, 0.0), of_step], axis=0)

    return replica_step


def make_gradient_function(model: AlbertPretrainer, compiler: Callable | None) -> Callable:
    """A pure function (weights, batch, counts, seed) -> gradients, sums.

    Args:
      model: of which the gradients are.
      compiler: of its formulas, see `formulas_compiled_by`.

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
        with formulas_compiled_by(compiler):
            with tf.GradientTape() as tape, keras.StatelessScope(state):
                tape.watch(weights)
                sums = pretraining_sums(model(batch, training=True), batch)
                loss = sums["masked_lm_loss"] / (predictions + 1e-5)
                # Of single segments it is 0 / 1.
                loss += sums["sentence_order_loss"] / tf.maximum(pairs, 1.0)
            gradients = tape.gradient(loss, weights)
        # Dense, since a sum of embedding lookups would take a different path through all-reduce and clipping.
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return gradients, tf.stack([sums[name] for name in SUMS])

    return gradient_function


def _at_once(gradient_function: Callable, parts: int) -> Callable:
    """The same function, of a batch in parts."""

    def function(weights, batch, counts, seed):
        def of_part(part, number):
            part_seed = tf.random.experimental.stateless_fold_in(seed, number)
            return gradient_function(weights, part, counts, part_seed)

        return _sum_of_parts(of_part, batch, parts)

    return function


def _sum_of_parts(function: Callable, batch: dict, parts: int):
    """The arrays that `function(part, number)` returns, added over parts of a batch, computed at once.

    A batch that does not divide evenly is one part.
    """
    if (batch["input_ids"].shape[0] or 1) % parts:
        return function(batch, 0)
    cut = {name: tf.split(values, parts) for name, values in batch.items()}
    results = [function({name: cut[name][number] for name in cut}, number) for number in range(parts)]
    return tf.nest.map_structure(lambda *values: tf.add_n(values), *results)


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


def _next_batch(iterator, after: tf.Tensor) -> tuple[dict, tf.Tensor]:
    """The next batch once `after` is there, and the seconds that it took to come."""
    with tf.control_dependencies([after]):
        began = tf.timestamp()
    with tf.control_dependencies([began]):
        batch = next(iterator)
    with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
        return batch, tf.cast(tf.timestamp() - began, tf.float32)


def _update(strategy, optimizer, gradients, weights, finite):
    """Applies gradients that are already summed over replicas, which `optimizer.apply` would sum again.

    Nothing but the count of steps changes where the gradients are not finite.
    """
    learning_rate = optimizer.learning_rate

    def apply():
        for weight, gradient in zip(weights, gradients, strict=True):
            strategy.extended.update(
                weight,
                lambda weight, gradient: optimizer.update_step(gradient, weight, learning_rate),
                args=(gradient,),
                group=False,
            )

    tf.cond(strategy.experimental_local_results(finite)[0], apply, lambda: None)
    optimizer.iterations.assign_add(1)


def _sum_replicas(strategy, value):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)


def step_metrics(sums: dict) -> dict[str, float]:
    """`pretraining_metrics` of the steps that were taken, if any, and what else is known of the steps.

    Returns:
      Also `gradient_norm`, the mean norm before clipping, and `skipped_steps`, how many were not finite.
    """
    sums = {name: float(value) for name, value in sums.items()}
    skipped: dict[str, float] = {"skipped_steps": int(sums["skipped_steps"])}
    if not sums["steps"]:
        return skipped
    return {**pretraining_metrics(sums), "gradient_norm": sums["gradient_norm"] / sums["steps"], **skipped}


def make_trust_ratio_function(optimizer: keras.optimizers.Optimizer) -> Callable[[], dict[str, float]]:
    """A function without arguments that gives LAMB's `trust_ratio_{mean,min,max}`; with AdamW nothing."""
    if not isinstance(optimizer, Lamb):
        return dict

    @tf.function
    def ratios():
        values = optimizer.trust_ratios()
        return tf.reduce_mean(values), tf.reduce_min(values), tf.reduce_max(values)

    return lambda: {
        f"trust_ratio_{name}": float(value)
        for name, value in zip(("mean", "min", "max"), ratios(), strict=True)
    }


def make_eval_function(
    model: AlbertPretrainer, strategy: tf.distribute.Strategy, *, parts_at_once: int = 1
) -> Callable:
    """A function batch -> sums over all replicas, with dropout off.

    Args:
      model: built under `strategy.scope()`.
      strategy: its replicas share every batch.
      parts_at_once: parts that a batch is cut into, if it divides evenly, see cores.py; for one replica.
    """

    def sums_of_part(batch):
        sums = pretraining_sums(model(batch, training=False), batch)
        return tf.stack([sums[name] for name in SUMS])

    if parts_at_once > 1:  # traced once for all parts; of several replicas it would capture one's variables
        sums_of_part = tf.function(sums_of_part, experimental_attributes={"_noinline": True})

    def replica_step(batch):
        return _sum_of_parts(lambda part, _: sums_of_part(part), batch, parts_at_once)

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
