"""Formulas that are compiled by themselves have the same values, and are so only where it pays."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from albert_tf import compilation
from albert_tf.compilation import LARGE, in_one_pass


@in_one_pass
def scaled(x, row, by: float):
    """Sums and elementwise operations, several results, a constant."""
    centred = x - ops.mean(x, axis=-1, keepdims=True)
    return by * centred * row, ops.sum(ops.square(centred), axis=0)


def is_compiled(*shape) -> bool:
    """Whether a graph over an array of a shape has a call that XLA must compile."""
    graph = (
        tf.function(scaled).get_concrete_function(tf.TensorSpec(shape), tf.TensorSpec(shape[-1:]), 2.0).graph
    )
    calls = [node for node in graph.as_graph_def().node if "PartitionedCall" in node.op]
    return any(call.attr["_XlaMustCompile"].b for call in calls)


@pytest.mark.xla
def test_the_same_values():
    x = np.random.default_rng(0).normal(size=(LARGE // 64, 64)).astype("float32")
    row = np.linspace(-1, 1, 64, dtype="float32")
    assert is_compiled(*x.shape)
    product, squares = scaled(tf.constant(x), tf.constant(row), 2.0)
    centred = x - x.mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(product, 2 * centred * row, atol=1e-5)
    np.testing.assert_allclose(squares, (centred**2).sum(axis=0), rtol=1e-4)


def test_not_small_arrays():
    assert not is_compiled(LARGE // 64 - 1, 64)


def test_not_shapes_that_differ_from_batch_to_batch():
    assert not is_compiled(None, 1 << 20)


def test_not_where_all_is_compiled_anyway(monkeypatch):
    monkeypatch.setattr(compilation, "compiling_pays", lambda: True)
    assert not is_compiled(LARGE, 64)


def test_not_without_xla_for_cpus(monkeypatch):
    """As in tensorflow-tpu."""
    monkeypatch.setattr(compilation, "compiles_for_cpus", lambda: False)
    assert not is_compiled(LARGE, 64)
