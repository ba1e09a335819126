"""Sums over micro-batches."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training.micro_batches import sum_over_micro_batches


@pytest.mark.parametrize("rows", [1, 4, 5, 6])
@pytest.mark.parametrize("is_static", [True, False])
def test_the_sum_does_not_depend_on_the_parts(rows, is_static):
    """Also if the parts are unequal or fewer, and if the shapes are unknown."""
    values = np.random.default_rng(0).integers(0, 9, (rows, 3)).astype("float32")
    numbers = []

    def function(batch, number):
        numbers.append(number)
        assert batch["none"] is None
        return tf.reduce_sum(batch["values"], axis=0), tf.size(batch["values"])

    signature = [tf.TensorSpec((rows, 3) if is_static else (None, None))]

    @tf.function(input_signature=signature, autograph=False)
    def sums(values):
        batch = {"values": values, "none": None}
        return sum_over_micro_batches(function, batch, 4, (tf.zeros(3), tf.constant(0)))

    total, size = sums(values)
    np.testing.assert_array_equal(total, values.sum(axis=0))
    assert size == values.size
    assert len(numbers) == 1  # a loop, not four copies
