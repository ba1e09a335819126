"""Gradient accumulation: the micro-batches of a batch, computed in turn to save memory."""

from collections.abc import Callable

import tensorflow as tf


def sum_over_micro_batches(function: Callable, batch, number_of_parts: int, zeros):
    """Adds what a function returns for each micro-batch, one after the other.

    Args:
      function: (micro-batch, its number) to a nest of arrays.
      batch: a nest of arrays with a row for each example, and of None.
      number_of_parts: how many micro-batches, of equal sizes if the rows divide evenly; fewer for fewer rows.
      zeros: zeros with the structure and shapes of what `function` returns.

    Returns:
      The sums, structured like `zeros`.
    """
    if number_of_parts == 1:
        return function(batch, 0)
    arrays = tf.nest.flatten(batch)
    rows = next(tf.shape(values)[0] for values in arrays if values is not None)
    parts_of = [_cut(values, rows, number_of_parts) for values in arrays]

    def add(number, sums):
        micro_batch = tf.nest.pack_sequence_as(batch, [part_of(number) for part_of in parts_of])
        return number + 1, tf.nest.map_structure(tf.add, sums, function(micro_batch, number))

    _, sums = tf.while_loop(
        lambda number, _: number < tf.minimum(number_of_parts, rows),
        add,
        (tf.constant(0), zeros),
        parallel_iterations=1,
        maximum_iterations=number_of_parts,
    )
    return sums


def _cut(values: tf.Tensor | None, rows: tf.Tensor, number_of_parts: int) -> Callable:
    """A function from the number of a part to the part; every part of None is None."""
    if values is None:
        return lambda number: None
    if values.shape.is_fully_defined() and values.shape[0] % number_of_parts == 0:
        equal = tf.reshape(values, (number_of_parts, -1, *values.shape[1:]))  # keeps shapes static, for XLA
        return lambda number: equal[number]
    parts = tf.minimum(number_of_parts, rows)
    return lambda number: values[rows * number // parts : rows * (number + 1) // parts]


def dropout_seed(seed: tf.Tensor, step: tf.Tensor, stream: tf.Tensor) -> tf.Tensor:
    """The dropout state of one micro-batch: a pure function, so that a resumed run draws the same masks.

    Keras' generator alone would give every replica the same masks, since each has the same copy of its state.

    Args:
      seed: int64 (2,), the model's seed.
      step: the number of optimizer steps taken.
      stream: the number of the micro-batch, counted over all replicas.

    Returns:
      int64 (2,).
    """
    fold_in = tf.random.experimental.stateless_fold_in
    return fold_in(fold_in(seed, tf.cast(step, tf.int64)), tf.cast(stream, tf.int64))
