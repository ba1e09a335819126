"""What a replica knows of the others, for losses of models that Keras trains."""

import keras


def number_of_replicas() -> int:
    """How many replicas share a batch under the strategy in force; 1 on backends without tf.distribute."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(value):
    """Adds up a scalar of all replicas; without several of them the value itself.

    Args:
      value: float32 scalar of this replica.

    Returns:
      The same scalar in every replica. No gradient is meant to go through it.
    """
    if number_of_replicas() == 1:
        return value
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value) if context else value
