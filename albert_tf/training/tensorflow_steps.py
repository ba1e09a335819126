"""The training step on TensorFlow, under any tf.distribute strategy."""

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework.config import is_op_determinism_enabled

from albert_tf.optimizers import CLIP_NORM
from albert_tf.training.micro_batches import dropout_seed, first_row, in_place, sum_over_micro_batches
from albert_tf.training.steps import STEP_SUMS, Objective, dropout_states

# Workers exchange gradients in pieces of this size. By default TensorFlow copies all of them into one piece
# before it sends anything: two workers that train BERT-base then take 1.4 times as long.
_EXCHANGE = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=4 * 2**20)


class Gradients:
    """Computes the gradient of a replica's share of a batch: a pure function of weights, batch and dropout state.

    Args:
      objective: what to differentiate.
      accumulation_steps: micro-batches into which the share is cut, computed in turn to save memory.
      parallel_parts: parts of a micro-batch that are computed in parallel.
      jit_compile: compile the forward and backward pass with XLA.
      formula_compiler: compiles single formulas of the model's kernels.
    """

    def __init__(
        self,
        objective: Objective,
        *,
        accumulation_steps: int = 1,
        parallel_parts: int = 1,
        jit_compile: bool = False,
        formula_compiler: Callable | None = None,
    ):
        model = objective.model
        self._objective, self._formula_compiler = objective, formula_compiler
        self._accumulation_steps, self._parallel_parts = accumulation_steps, parallel_parts
        self._variables, self._fixed = model.trainable_variables, model.non_trainable_weights
        self._seeds = dropout_states(model)
        self._part_gradients: Callable = self.part_gradients
        if jit_compile:
            # Not the whole step: XLA cannot compile the all-reduce and the update under every strategy.
            self._part_gradients = tf.function(self.part_gradients, jit_compile=True, autograph=False)
        elif accumulation_steps > 1 or parallel_parts > 1:
            # Not inlined: for long sums of gradients inside two loops, TensorFlow 2.21 creates temporary
            # variables, and fails in the second step because they already exist.
            self._part_gradients = not_inlined(self.part_gradients)

    def __call__(self, batch, counts: list, step: tf.Tensor, replica_id) -> tuple[list, tf.Tensor]:
        """The gradients and sums of a replica's share, added over its micro-batches.

        Args:
          batch: the share.
          counts: `Objective.counts` of the global batch.
          step: the number of optimizer steps taken. Dropout masks depend on it, on the replica and on the part.
          replica_id: the number of the replica.

        Returns:
          The gradients, dense arrays shaped like the trainable variables; the sums.
        """
        weights, fixed = (
            [tf.convert_to_tensor(variable) for variable in variables]
            for variables in (self._variables, self._fixed)
        )
        seeds = [tf.convert_to_tensor(seed) for seed in self._seeds]
        first_stream = replica_id * self._accumulation_steps

        def drawn(number):
            first = (first_stream + number) * len(seeds)
            return [dropout_seed(seed, step, first + i) for i, seed in enumerate(seeds)]

        replicas, parts = tf.distribute.get_replica_context().num_replicas_in_sync, self._accumulation_steps
        rows: dict | None = None
        if self._objective.needs_rows(batch) and replicas * parts > 1:
            rows, first = self._all_rows((weights, fixed), batch, drawn, replica_id)

        def micro_batch_gradients(micro_batch, number):
            others = [rows, first + first_row(batch, parts, number)] if rows else []
            return self._in_parallel((weights, fixed), micro_batch, [*counts, *others], drawn(number))

        zeros = ([tf.zeros_like(weight) for weight in weights], tf.zeros(len(self._objective.names)))
        return sum_over_micro_batches(micro_batch_gradients, batch, self._accumulation_steps, zeros)

    def _all_rows(self, values: tuple, batch, drawn: Callable, replica_id) -> tuple[dict, tf.Tensor]:
        """`Objective.rows` of the global batch, without gradients, and the number of this replica's first one.

        Args:
          values: as for `part_gradients`.
          batch: the replica's share.
          drawn: from the number of a micro-batch to its dropout states, those of `part_gradients`.
          replica_id: the number of the replica.
        """
        size = first_row(batch, 1, 1)

        def micro_batch_rows(micro_batch, number):
            with self._scope(values, drawn(number)):
                rows = self._objective.rows(micro_batch)
            return in_place(rows, first_row(batch, self._accumulation_steps, number), size)

        rows = sum_over_micro_batches(micro_batch_rows, batch, self._accumulation_steps)
        replica = tf.distribute.get_replica_context()
        sizes = size * tf.one_hot(replica_id, replica.num_replicas_in_sync, dtype=tf.int32)
        sizes = replica.all_reduce(tf.distribute.ReduceOp.SUM, sizes)
        first = tf.reduce_sum(sizes[:replica_id])
        rows = in_place(rows, first, tf.reduce_sum(sizes))
        # One after the other: TensorFlow refuses integers, which are in the host's memory, beside floats.
        add = partial(replica.all_reduce, tf.distribute.ReduceOp.SUM, options=_EXCHANGE)
        return {name: add(array) for name, array in rows.items()}, first

    def _in_parallel(self, values: tuple, batch, counts: list, seeds: list):
        """`part_gradients` of a micro-batch, added over parts that are computed in parallel."""
        if self._parallel_parts == 1:
            return self._part_gradients(values, batch, counts, seeds)

        def part_gradients(part, number):
            fold_in = tf.random.experimental.stateless_fold_in
            return self._part_gradients(values, part, counts, [fold_in(seed, number) for seed in seeds])

        return sum_of_parts(part_gradients, batch, self._parallel_parts)

    def part_gradients(self, values: tuple[list, list], batch, counts: list, seeds: list):
        """The gradients and the sums of any part of a global batch.

        Args:
          values: the values of the trainable variables, and of all other variables.
          batch: the part.
          counts: the counts of the global batch. The loss is divided by them, so that the gradients of all parts
            add up to the gradient of the global batch, however it is cut.
          seeds: the model's dropout states, int64 (2,).
        """
        weights, _ = values
        with tf.GradientTape() as tape, self._scope(values, seeds):
            tape.watch(weights)
            loss, sums = self._objective.loss_and_sums(batch, counts)
        gradients = tape.gradient(loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        # Dense: the sparse gradient of an embedding lookup would be reduced and clipped differently.
        return [tf.convert_to_tensor(gradient) for gradient in gradients], sums

    def _scope(self, values: tuple[list, list], seeds: list) -> keras.StatelessScope:
        """A context in which arguments replace variables and dropout states.

        Nothing is captured that differs between replicas, and nothing is assigned, which XLA cannot do under every
        strategy.
        """
        if kernels := self._objective.model.encoder.kernels:
            kernels.compiler = self._formula_compiler
        variables = [*self._variables, *self._fixed, *self._seeds]
        return keras.StatelessScope(list(zip(variables, [*values[0], *values[1], *seeds], strict=True)))


class TensorFlowStep:
    """The `OptimizerStep` (albert_tf/training/steps.py) of a strategy.

    Args:
      objective: of a model that was created under `strategy.scope()`, as was the optimizer.
      optimizer: built for the model's trainable variables.
      strategy: the replicas that share every batch.
      **options: those of `Gradients`.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: keras.optimizers.Optimizer,
        strategy: tf.distribute.Strategy,
        **options: Any,
    ):
        self._objective, self._optimizer, self._strategy = objective, optimizer, strategy
        self._gradients = Gradients(objective, **options)
        self.names = (*objective.names, *STEP_SUMS)
        self._take_steps = tf.function(self._steps, autograph=False)

    def zero_sums(self) -> dict[str, tf.Tensor]:
        return {name: tf.constant(0.0) for name in self.names}

    def __call__(self, batches, steps: int, sums: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return self._take_steps(batches, tf.constant(steps), sums)

    def _steps(self, iterator, steps, sums):
        def take_step(number, totals):
            batch, waited = _next_batch(iterator, totals)
            # On one core, TensorFlow may otherwise read the clock only after the step.
            with tf.control_dependencies([waited]):
                each = self._strategy.run(self.replica_step, args=(batch,))
                step_sums = self._strategy.reduce(tf.distribute.ReduceOp.SUM, each, axis=None)
            return number + 1, totals + tf.concat([step_sums, [waited]], axis=0)

        totals = tf.stack([sums[name] for name in self.names])
        _, totals = tf.while_loop(lambda number, _: number < steps, take_step, (tf.constant(0), totals))
        return dict(zip(self.names, tf.unstack(totals), strict=True))

    def replica_step(self, batch) -> tf.Tensor:
        """Takes one optimizer step with a replica's share of the global batch, inside `strategy.run`.

        Returns:
          The sums of this replica in the order of `names` without the last one, float32.
        """
        replica = tf.distribute.get_replica_context()
        counts = replica.all_reduce(tf.distribute.ReduceOp.SUM, self._objective.counts(batch))
        step = tf.convert_to_tensor(self._optimizer.iterations)
        gradients, sums = self._gradients(batch, counts, step, replica.replica_id_in_sync_group)
        # Reduced together with the sums, so that all replicas agree on whether the step is finite.
        shared = [*gradients, tf.reduce_sum(sums)]
        *gradients, total = replica.all_reduce(tf.distribute.ReduceOp.SUM, shared, _EXCHANGE)
        gradients, norm = tf.clip_by_global_norm(gradients, CLIP_NORM)
        finite = tf.math.is_finite(norm) & tf.math.is_finite(total)
        variables = [variable.value for variable in self._objective.model.trainable_variables]
        replica.merge_call(_update, args=(self._optimizer, gradients, variables, finite))
        taken = tf.cast(finite, tf.float32)
        counted = tf.stack([taken, 1 - taken, tf.where(finite, norm, 0.0)])
        # The same on every replica, so only the first one adds them.
        counted *= tf.cast(tf.equal(replica.replica_id_in_sync_group, 0), tf.float32)
        return tf.concat([tf.where(finite, sums, 0.0), counted], axis=0)


def not_inlined(function: Callable) -> Callable:
    """A tf.function that is traced once and called, however often a graph uses it."""
    return tf.function(function, autograph=False, experimental_attributes={"_noinline": True})


def sum_of_parts(function: Callable, batch: dict, parts: int):
    """Adds the arrays that `function(part, number)` returns over parts of a batch, computed in parallel.

    A batch that does not divide evenly is computed whole.
    """
    if (batch["input_ids"].shape[0] or 1) % parts:  # an unknown size does not divide
        return function(batch, 0)
    cut = {name: tf.split(values, parts) for name, values in batch.items()}
    results = [function({name: cut[name][number] for name in cut}, number) for number in range(parts)]
    return tf.nest.map_structure(lambda *values: tf.add_n(values), *results)


def _next_batch(iterator, after: tf.Tensor) -> tuple[dict, tf.Tensor]:
    """The next batch, requested once `after` is computed, and the seconds until it arrived.

    With --deterministic_ops, TensorFlow has no clock, and the seconds are 0.
    """
    if is_op_determinism_enabled():
        return next(iterator), tf.constant(0.0)
    with tf.control_dependencies([after]):
        began = tf.timestamp()
    with tf.control_dependencies([began]):
        batch = next(iterator)
    with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
        return batch, tf.cast(tf.timestamp() - began, tf.float32)


def _update(strategy, optimizer, gradients, variables, finite):
    """Applies gradients that are already summed over replicas; `optimizer.apply` would sum them again.

    If the step is not finite, only the number of steps changes. Variables are updated one after the other:
    TensorFlow would otherwise begin with all of them, and hold the intermediate results of all at once.
    """
    learning_rate = optimizer.learning_rate

    def update(variable, gradient):
        optimizer.update_step(gradient, variable, learning_rate)
        return variable.read_value()

    def apply():
        updated: list = []
        for variable, gradient in zip(variables, gradients, strict=True):
            with tf.control_dependencies(updated):
                updated = [strategy.extended.update(variable, update, args=(gradient,))]
        if optimizer.use_ema:
            optimizer.update_averages()

    tf.cond(strategy.experimental_local_results(finite)[0], apply, lambda: None)
    optimizer.iterations.assign_add(1)
