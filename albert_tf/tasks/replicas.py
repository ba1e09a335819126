"""The replicas that share a batch of Keras `fit`: sums over all of them, and their own dropout masks."""

import contextlib
import contextvars
from collections.abc import Iterator

import keras
import tensorflow as tf

from albert_tf.training.micro_batches import dropout_seed
from albert_tf.training.steps import dropout_states


def number_of_replicas() -> int:
    """How many replicas share a batch under the current strategy; 1 on backends without tf.distribute."""
    if keras.backend.backend() != "tensorflow":
        return 1
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(value):
    """The sum of a float32 array over all replicas, the same in each; carries no gradient."""
    if number_of_replicas() == 1:
        return value
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value) if context else value


def replica_number():
    """The number of the replica that computes a step."""
    return tf.distribute.get_replica_context().replica_id_in_sync_group


_states: contextvars.ContextVar[tuple] = contextvars.ContextVar("dropout states of the replica", default=())


@contextlib.contextmanager
def masks_of_replica(model) -> Iterator[None]:
    """Within this context, `replica_states` are those of this replica and step, unless there is one replica.

    Keras' generators have the same state on every replica, so all would draw the same masks.
    """
    states: tuple = ()
    if number_of_replicas() > 1:
        generators = dropout_states(model)
        step, first = tf.convert_to_tensor(model.optimizer.iterations), replica_number() * len(generators)
        states = tuple(
            (state, dropout_seed(tf.convert_to_tensor(state), step, first + i))
            for i, state in enumerate(generators)
        )
    token = _states.set(states)
    try:
        yield
    finally:
        _states.reset(token)


def replica_states() -> contextlib.AbstractContextManager:
    """A context in which a model draws the masks of `masks_of_replica`."""
    states = _states.get()
    return keras.StatelessScope(list(states)) if states else contextlib.nullcontext()
