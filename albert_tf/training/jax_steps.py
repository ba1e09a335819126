"""The training step on JAX: one compiled function that runs in each replica at once."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import keras
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.sharding import PartitionSpec

from albert_tf.optimizers import CLIP_NORM
from albert_tf.training.jax_replicas import AXIS, Replicas, all_rows
from albert_tf.training.steps import STEP_SUMS, Objective, dropout_states


class JaxStep:
    """The `OptimizerStep` (albert_tf/training/steps.py) of JAX.

    Each step is started while the one before it runs. The variables of model and optimizer have the values after
    the last step once a call returns.

    Args:
      objective: what to minimize.
      optimizer: built for the model's trainable variables.
      replicas: share every batch.
      accumulation_steps: micro-batches into which a replica's share is cut, computed in turn to save memory.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: keras.optimizers.Optimizer,
        replicas: Replicas,
        accumulation_steps: int = 1,
    ):
        self._objective, self._optimizer, self._replicas = objective, optimizer, replicas
        self._accumulation_steps = accumulation_steps
        self.names = (*objective.names, *STEP_SUMS)
        model = objective.model
        self._num_weights = len(model.trainable_variables)
        # What a step changes, which it computes in place; and what it only reads.
        self._state = [*model.trainable_variables, *optimizer.variables]
        self._fixed, self._seeds = model.non_trainable_weights, dropout_states(model)
        copied, divided = PartitionSpec(), PartitionSpec(AXIS)
        self._step = replicas.on_replicas(self._replica_step, copied, copied, copied, divided, donated=(0,))
        self._compiled: dict[tuple, Callable] = {}
        self._first: list = []  # the batch that a call without steps has taken
        self._watch = ThreadPoolExecutor(1, "end-of-step").submit

    def zero_sums(self) -> dict[str, Any]:
        return dict.fromkeys(self.names, np.float32(0))

    def __call__(self, batches: Iterator, steps: int, sums: dict[str, Any]) -> dict[str, Any]:
        if not steps:
            self._first = [next(batches)]
            self._executable(self._first[0])
            return sums
        state, fixed = self._replicas.copied(self._state), self._replicas.copied([*self._fixed, *self._seeds])
        totals = self._replicas.copy(np.array([sums[name] for name in self.names[:-1]], "float32"))
        waited, ends = sums["input_wait"], list[Future]()
        for _ in range(steps):
            began = time.monotonic()
            batch = self._first.pop() if self._first else next(batches)
            if not ends or ends[-1].done():  # the devices have waited for the batch, too
                waited += np.float32(time.monotonic() - max([began, *(end.result() for end in ends[-1:])]))
            for end in ends[:-1]:
                end.result()  # at most one step waits for another
            state, totals = self._executable(batch)(state, fixed, totals, batch)
            ends = [*ends[-1:], self._watch(_time_when_ready, totals)]
        for variable, value in zip(self._state, state, strict=True):
            variable.assign(value)
        return dict(zip(self.names, [*np.asarray(totals), waited], strict=True))

    def lower(self, batch) -> jax.stages.Lowered:
        """The step before its compilation, which needs shapes only: neither values nor devices that exist.

        Args:
          batch: a global batch of arrays, or of `jax.ShapeDtypeStruct`.
        """
        totals = np.zeros(len(self.names) - 1, "float32")
        arguments = self._state, [*self._fixed, *self._seeds], totals, batch
        return self._step.lower(
            *jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), arguments)
        )

    def _executable(self, batch) -> Callable:
        """The step for the shapes of a batch."""
        shapes = tuple(array.shape for array in jax.tree.leaves(batch))
        if shapes not in self._compiled:
            self._compiled[shapes] = self.lower(batch).compile()
        return self._compiled[shapes]

    def _replica_step(self, state: list, fixed: list, totals: jax.Array, batch) -> tuple[list, jax.Array]:
        """Takes one step with a replica's share of the global batch; returns the new state and sums."""
        counts = lax.psum(self._objective.counts(batch), AXIS)
        gradients, sums = self._gradients(state, fixed, counts, batch)
        gradients, sums = lax.psum((gradients, sums), AXIS)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients))
        finite = jnp.isfinite(norm) & jnp.isfinite(jnp.sum(sums))
        scale = CLIP_NORM * jnp.minimum(1 / norm, 1 / CLIP_NORM)
        updated = self._updated(state, [gradient * scale for gradient in gradients])
        state = [jnp.where(finite, after, before) for before, after in zip(state, updated, strict=True)]
        state[self._number_of(self._optimizer.iterations)] += 1
        step_sums = [*jnp.where(finite, sums, 0.0), finite, ~finite, jnp.where(finite, norm, 0.0)]
        return state, totals + jnp.stack([jnp.asarray(each, "float32") for each in step_sums])

    def _gradients(self, state: list, fixed: list, counts: list, batch) -> tuple[list, jax.Array]:
        """The gradients and sums of a replica's share, added over its micro-batches."""
        parts, step = self._accumulation_steps, state[self._number_of(self._optimizer.iterations)]
        weights, variables = state[: self._num_weights], self._objective.model.trainable_variables
        fixed, seeds = fixed[: len(self._fixed)], fixed[len(self._fixed) :]
        first, objective = lax.axis_index(AXIS) * parts, self._objective

        def scope(weights, number):
            drawn = [
                _dropout_seed(seed, step, (first + number) * len(seeds) + i) for i, seed in enumerate(seeds)
            ]
            values = zip([*variables, *self._fixed, *self._seeds], [*weights, *fixed, *drawn], strict=True)
            return keras.StatelessScope(list(values))

        cut = jax.tree.map(lambda array: array.reshape(parts, -1, *array.shape[1:]), batch)
        rows: dict | None = None
        if objective.needs_rows(batch) and self._replicas.replicas * parts > 1:

            def micro_batch_rows(numbered):
                with scope(weights, numbered[0]):
                    return objective.rows(numbered[1])

            rows = lax.map(micro_batch_rows, (jnp.arange(parts), cut))
            rows = all_rows(jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), rows))

        def loss_and_sums(weights, number, micro_batch):
            size = len(jax.tree.leaves(micro_batch)[0])
            others = [rows, (first + number) * size] if rows else []
            with scope(weights, number):
                return objective.loss_and_sums(micro_batch, [*counts, *others])

        def micro_batch_gradients(number, micro_batch):
            (_, sums), gradients = jax.value_and_grad(loss_and_sums, has_aux=True)(
                weights, number, micro_batch
            )
            return gradients, sums

        if parts == 1:
            return micro_batch_gradients(0, batch)

        def add(total, numbered):
            return jax.tree.map(jnp.add, total, micro_batch_gradients(*numbered)), None

        zeros = [jnp.zeros_like(weight) for weight in weights], jnp.zeros(len(self._objective.names))
        return lax.scan(add, zeros, (jnp.arange(parts), cut))[0]

    def _updated(self, state: list, gradients: list) -> list:
        """The state after the optimizer's update, but for the number of steps."""
        optimizer, variables = self._optimizer, self._objective.model.trainable_variables
        with keras.StatelessScope(list(zip(self._state, state, strict=True))) as scope:
            learning_rate = optimizer.learning_rate
            for variable, gradient in zip(variables, gradients, strict=True):
                optimizer.update_step(gradient, variable, learning_rate)
            if optimizer.use_ema:
                optimizer.update_averages()
            return [jnp.asarray(scope.get_current_value(variable)) for variable in self._state]

    def _number_of(self, variable: keras.Variable) -> int:
        return next(i for i, each in enumerate(self._state) if each is variable)


def _dropout_seed(seed: jax.Array, step: jax.Array, stream) -> jax.Array:
    """As `micro_batches.dropout_seed`: a pure function, so that a resumed run draws the same masks."""
    return jax.random.fold_in(jax.random.fold_in(seed, step), stream)


def _time_when_ready(array: jax.Array) -> float:
    jax.block_until_ready(array)
    return time.monotonic()
