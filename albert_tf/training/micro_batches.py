"""Gradient accumulation: the micro-batches of a batch, computed in turn to save memory."""

from collections.abc import Callable

import tensorflow as tf


def sum_over_micro_batches(function: Callable, batch, number_of_parts: int, zeros=None):
    """Adds what a function returns for each micro-batch, one after the other.

    Args:
      function: (micro-batch, its number) to a nest of arrays.
      batch: a nest of arrays with a row for each example, and of None.
      number_of_parts: how many micro-batches, of equal sizes if the rows divide evenly; fewer for fewer rows.
      zeros: zeros with the structure and shapes of what `function` returns. Default: what it returns for the first
        micro-batch is where the sum begins; the graph then has `function` twice.

    Returns:
      The sums, structured like what `function` returns.
    """
    if number_of_parts == 1:
        return function(batch, 0)
    arrays = tf.nest.flatten(batch)
    rows = next(tf.shape(values)[0] for values in arrays if values is not None)
    parts_of = [_cut(values, rows, number_of_parts) for values in arrays]

    def result_of(number):
        return function(tf.nest.pack_sequence_as(batch, [part_of(number) for part_of in parts_of]), number)

    def add(number, sums):
        return number + 1, tf.nest.map_structure(tf.add, sums, result_of(number))

    first = (0, zeros) if zeros is not None else (1, result_of(tf.constant(0)))

    _, sums = tf.while_loop(
        lambda number, _: number < tf.minimum(number_of_parts, rows),
        add,
        (tf.constant(first[0]), first[1]),
        parallel_iterations=1,
        maximum_iterations=number_of_parts,
    )
    return sums


def first_row(batch, number_of_parts: int, number):
    """The first row of a micro-batch of `sum_over_micro_batches`."""
    rows = next(tf.shape(values)[0] for values in tf.nest.flatten(batch) if values is not None)
    return rows * number // tf.maximum(tf.minimum(number_of_parts, rows), 1)


def in_place(arrays, first, size):
    """Arrays (B, ...) as rows of arrays (size, ...) that begin with row `first`; the others are zeros."""

    def placed(array):
        after = size - first - tf.shape(array)[0]
        found = tf.pad(array, [[first, after], *[[0, 0]] * (len(array.shape) - 1)])
        return tf.ensure_shape(found, [tf.get_static_value(size), *array.shape[1:]])

    return tf.nest.map_structure(placed, arrays)


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
