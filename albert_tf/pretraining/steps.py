"""The training step and the evaluation step, under any tf.distribute strategy.

Keras `fit` is not used: under several strategies it fails when one call takes several steps
(docs/architecture.md).

    global batch -> share of a replica -> micro-batches, in turn -> parts, in parallel -> gradients and sums
                 -> added over parts, micro-batches and replicas -> clipped -> update
"""

from collections.abc import Callable, Iterable

import keras
import tensorflow as tf

from albert_tf.model.formulas import formulas_compiled_by
from albert_tf.model.pretrainer import SUMS, AlbertPretrainer, pretraining_metrics, pretraining_sums
from albert_tf.optimizers import CLIP_NORM, Lamb
from albert_tf.pretraining.devices import formula_compiler
from albert_tf.training.micro_batches import dropout_seed, sum_over_micro_batches

# What a training step adds: `pretraining_sums`; 1 and 0 if the step was taken, 0 and 1 if it was skipped; the
# norm of the gradient before clipping; the seconds that the step waited for its batch.
TRAINING_SUMS = (*SUMS, "steps", "skipped_steps", "gradient_norm", "input_wait")


def zero_sums() -> dict[str, tf.Tensor]:
    """The sums before the first step."""
    return {name: tf.constant(0.0) for name in TRAINING_SUMS}


def step_metrics(sums: dict) -> dict[str, float]:
    """The means over the steps that the sums of a `TrainStep` cover.

    Returns:
      `skipped_steps`, the number of skipped steps. If any step was taken, also `pretraining_metrics` and
      `gradient_norm`, the mean norm before clipping.
    """
    sums = {name: float(value) for name, value in sums.items()}
    skipped: dict[str, float] = {"skipped_steps": int(sums["skipped_steps"])}
    if not sums["steps"]:
        return skipped
    return {**pretraining_metrics(sums), "gradient_norm": sums["gradient_norm"] / sums["steps"], **skipped}


class TrainStep:
    """Takes optimizer steps: `sums = step(iterator, tf.constant(10), zero_sums())` takes ten in one call.

    A step whose loss or gradient is not finite is skipped: it changes neither weights nor moments, and adds
    nothing to the sums but a count. It still counts in `optimizer.iterations`, so that the next step reads
    other examples.

    Args:
      model: created under `strategy.scope()`, as is the optimizer.
      optimizer: built for the model's trainable variables.
      strategy: the replicas that share every batch.
      accumulation_steps: micro-batches into which each replica cuts its share of the batch, computed in turn to
        save memory. The gradient is still that of the whole batch.
      parallel_parts: parts of a micro-batch that are computed in parallel, see `split_batches_over_cores`.
      jit_compile: compile the forward and backward pass with XLA.
    """

    def __init__(
        self,
        model: AlbertPretrainer,
        optimizer: keras.optimizers.Optimizer,
        strategy: tf.distribute.Strategy,
        *,
        accumulation_steps: int = 1,
        parallel_parts: int = 1,
        jit_compile: bool = False,
    ):
        self._model, self._optimizer, self._strategy = model, optimizer, strategy
        self._accumulation_steps, self._parallel_parts = accumulation_steps, parallel_parts
        self._formula_compiler = None if jit_compile else formula_compiler()
        self._gradients_of_part: Callable = self.gradients
        if jit_compile:
            # Not the whole step: XLA cannot compile the all-reduce and the update under every strategy.
            self._gradients_of_part = tf.function(self.gradients, jit_compile=True, autograph=False)
        elif accumulation_steps > 1 or parallel_parts > 1:
            # Not inlined: for long sums of gradients inside two loops, TensorFlow 2.21 makes temporary
            # variables that the second step finds already there, and fails.
            self._gradients_of_part = _not_inlined(self.gradients)
        self._take_steps = tf.function(self._steps, autograph=False)
        self._trust_ratios = tf.function(_trust_ratios, autograph=False)

    def __call__(self, iterator, steps: tf.Tensor, sums: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Takes `steps` optimizer steps and adds their sums over all replicas to `sums`.

        The sums are added step by step, so that the number of steps in a call does not change a single bit of
        them.

        Args:
          iterator: of distributed batches.
          steps: int32 scalar.
          sums: `zero_sums`, or what an earlier call returned; `step_metrics` turns them into means.
        """
        return self._take_steps(iterator, steps, sums)

    def trust_ratios(self) -> dict[str, float]:
        """LAMB's `trust_ratio_{mean,min,max}` for the current weights and moments; nothing for AdamW."""
        if not isinstance(self._optimizer, Lamb):
            return {}
        return {f"trust_ratio_{name}": float(v) for name, v in self._trust_ratios(self._optimizer).items()}

    def _steps(self, iterator, steps, sums):
        def take_step(number, totals):
            batch, waited = _next_batch(iterator, totals)
            step_sums = _sum_replicas(self._strategy, self._strategy.run(self.replica_step, args=(batch,)))
            return number + 1, totals + tf.concat([step_sums, [waited]], axis=0)

        totals = tf.stack([sums[name] for name in TRAINING_SUMS])
        _, totals = tf.while_loop(lambda number, _: number < steps, take_step, (tf.constant(0), totals))
        return dict(zip(TRAINING_SUMS, tf.unstack(totals), strict=True))

    def replica_step(self, batch: dict) -> tf.Tensor:
        """Takes one optimizer step with a replica's share of the global batch, inside `strategy.run`.

        Returns:
          The sums of this replica in the order of `TRAINING_SUMS` without the last one: float32 (10,).
        """
        replica = tf.distribute.get_replica_context()
        counts = replica.all_reduce(
            tf.distribute.ReduceOp.SUM,
            [tf.reduce_sum(batch["masked_lm_weights"]), tf.reduce_sum(batch["sentence_order_weights"])],
        )
        variables = [variable.value for variable in self._model.trainable_variables]
        gradients, sums = self._accumulate(variables, batch, counts, replica.replica_id_in_sync_group)
        # Reduced together with the sums, so that all replicas agree on whether the step is finite.
        *gradients, total = replica.all_reduce(tf.distribute.ReduceOp.SUM, [*gradients, tf.reduce_sum(sums)])
        gradients, norm = tf.clip_by_global_norm(gradients, CLIP_NORM)
        finite = tf.math.is_finite(norm) & tf.math.is_finite(total)
        replica.merge_call(_update, args=(self._optimizer, gradients, variables, finite))
        taken = tf.cast(finite, tf.float32)
        counted = tf.stack([taken, 1 - taken, tf.where(finite, norm, 0.0)])
        # These are the same on every replica: only the first one adds them.
        counted *= tf.cast(tf.equal(replica.replica_id_in_sync_group, 0), tf.float32)
        return tf.concat([tf.where(finite, sums, 0.0), counted], axis=0)

    def _accumulate(self, variables: list, batch: dict, counts: list, replica_id) -> tuple[list, tf.Tensor]:
        """Adds gradients and sums over the micro-batches of a replica's share of the batch, in turn."""
        weights = [tf.convert_to_tensor(variable) for variable in variables]
        seed = tf.convert_to_tensor(self._model.encoder.seeds.state)
        step = tf.convert_to_tensor(self._optimizer.iterations)
        first_stream = replica_id * self._accumulation_steps

        def gradients_of(micro_batch, number):
            stream_seed = dropout_seed(seed, step, first_stream + number)
            return self._in_parallel(weights, micro_batch, counts, stream_seed)

        zeros = ([tf.zeros_like(weight) for weight in weights], tf.zeros(len(SUMS)))
        return sum_over_micro_batches(gradients_of, batch, self._accumulation_steps, zeros)

    def _in_parallel(self, weights: list, batch: dict, counts: list, seed: tf.Tensor):
        """`gradients` of a micro-batch, added over parts that are computed in parallel."""
        if self._parallel_parts == 1:
            return self._gradients_of_part(weights, batch, counts, seed)

        def gradients_of(part, number):
            part_seed = tf.random.experimental.stateless_fold_in(seed, number)
            return self._gradients_of_part(weights, part, counts, part_seed)

        return _sum_of_parts(gradients_of, batch, self._parallel_parts)

    def gradients(self, weights, batch, counts, seed):
        """The gradients and the sums of any part of a global batch: a pure function of its arguments.

        Args:
          weights: the values of `model.trainable_variables`.
          batch: the part.
          counts: the numbers of predictions and of pairs in the global batch. The loss is divided by these,
            so that the gradients of all parts add up to that of the global batch, however it is cut.
          seed: int64 (2,), see `dropout_seed`.

        Returns:
          The gradients, dense arrays shaped like the weights; the sums in the order of `SUMS`, float32 (7,).
        """
        predictions, pairs = counts
        variables = self._model.trainable_variables
        # Arguments replace variables and dropout state: nothing is captured that differs between replicas, and
        # nothing is assigned, which XLA cannot do under every strategy.
        state = [*zip(variables, weights, strict=True), (self._model.encoder.seeds.state, seed)]
        with formulas_compiled_by(self._formula_compiler):
            with tf.GradientTape() as tape, keras.StatelessScope(state):
                tape.watch(weights)
                sums = pretraining_sums(self._model(batch, training=True), batch)
                loss = sums["masked_lm_loss"] / (predictions + 1e-5)
                # 0 / 1 if the examples are single segments.
                loss += sums["sentence_order_loss"] / tf.maximum(pairs, 1.0)
            gradients = tape.gradient(loss, weights)
        # Dense: the sparse gradient of an embedding lookup would be reduced and clipped differently.
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return gradients, tf.stack([sums[name] for name in SUMS])


def _not_inlined(function: Callable) -> Callable:
    """A tf.function that is traced once and called, however often a graph uses it."""
    return tf.function(function, autograph=False, experimental_attributes={"_noinline": True})


def _sum_of_parts(function: Callable, batch: dict, parts: int):
    """Adds the arrays that `function(part, number)` returns over parts of a batch, computed in parallel.

    A batch that does not divide evenly is computed whole.
    """
    if (batch["input_ids"].shape[0] or 1) % parts:
        return function(batch, 0)
    cut = {name: tf.split(values, parts) for name, values in batch.items()}
    results = [function({name: cut[name][number] for name in cut}, number) for number in range(parts)]
    return tf.nest.map_structure(lambda *values: tf.add_n(values), *results)


def _next_batch(iterator, after: tf.Tensor) -> tuple[dict, tf.Tensor]:
    """The next batch, requested once `after` is computed, and the seconds until it arrived."""
    with tf.control_dependencies([after]):
        began = tf.timestamp()
    with tf.control_dependencies([began]):
        batch = next(iterator)
    with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
        return batch, tf.cast(tf.timestamp() - began, tf.float32)


def _update(strategy, optimizer, gradients, variables, finite):
    """Applies gradients that are already summed over replicas; `optimizer.apply` would sum them again.

    If the step is not finite, only the number of steps changes.
    """
    learning_rate = optimizer.learning_rate

    def apply():
        for variable, gradient in zip(variables, gradients, strict=True):
            strategy.extended.update(
                variable,
                lambda variable, gradient: optimizer.update_step(gradient, variable, learning_rate),
                args=(gradient,),
                group=False,
            )

    tf.cond(strategy.experimental_local_results(finite)[0], apply, lambda: None)
    optimizer.iterations.assign_add(1)


def _sum_replicas(strategy, value):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)


def _trust_ratios(optimizer: Lamb) -> dict[str, tf.Tensor]:
    values = optimizer.trust_ratios()
    return {"mean": tf.reduce_mean(values), "min": tf.reduce_min(values), "max": tf.reduce_max(values)}


class EvalStep:
    """Computes the sums of a batch over all replicas, without dropout: `sums = step(batch)`.

    Args:
      model: created under `strategy.scope()`.
      strategy: the replicas that share every batch.
      parallel_parts: parts of a batch that are computed in parallel if it divides evenly, see
        `split_batches_over_cores`; more than 1 only for a single replica.
    """

    def __init__(self, model: AlbertPretrainer, strategy: tf.distribute.Strategy, *, parallel_parts: int = 1):
        self._model, self._strategy, self._parallel_parts = model, strategy, parallel_parts
        self._sums_of_part: Callable = self._sums
        if parallel_parts > 1:  # not with several replicas: it would capture the variables of one
            self._sums_of_part = _not_inlined(self._sums)
        self._step = tf.function(self._all_replicas, autograph=False)

    def __call__(self, batch) -> dict[str, tf.Tensor]:
        """`pretraining_sums` of a distributed batch."""
        return self._step(batch)

    def metrics(self, batches: Iterable, max_steps: int | None = None) -> dict[str, float]:
        """Means over the examples of at most `max_steps` batches.

        Returns:
          `pretraining_metrics`, with names prefixed by `eval_`, and `eval_examples`, the number of examples.
        """
        totals = dict.fromkeys(SUMS, 0.0)
        for step, batch in enumerate(batches):
            if step == max_steps:
                break
            sums = self(batch)
            totals = {name: totals[name] + float(sums[name]) for name in SUMS}
        metrics = {f"eval_{name}": value for name, value in pretraining_metrics(totals).items()}
        return {**metrics, "eval_examples": int(totals["examples"])}

    def _all_replicas(self, batch):
        sums = _sum_replicas(self._strategy, self._strategy.run(self._replica_sums, args=(batch,)))
        return dict(zip(SUMS, tf.unstack(sums), strict=True))

    def _replica_sums(self, batch):
        return _sum_of_parts(lambda part, _: self._sums_of_part(part), batch, self._parallel_parts)

    def _sums(self, batch):
        sums = pretraining_sums(self._model(batch, training=False), batch)
        return tf.stack([sums[name] for name in SUMS])
