"""XLA for formulas alone: the same values, and not where there is nothing to gain."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.formulas import LARGE, formulas_compiled_by
from albert_tf.pretraining import formula_compiler as module
from albert_tf.pretraining.formula_compiler import compile_formula, formula_compiler
from tests.albert_tf.model.test_formulas import centred


def must_compile(*shape) -> bool:
    """Whether a graph over an array of a shape has a call that XLA must compile."""
    with formulas_compiled_by(formula_compiler()):
        traced = tf.function(centred).get_concrete_function(tf.TensorSpec(shape), 2.0)
    calls = [node for node in traced.graph.as_graph_def().node if "PartitionedCall" in node.op]
    return any(call.attr["_XlaMustCompile"].b for call in calls)


@pytest.mark.xla
def test_the_same_values():
    x = np.random.default_rng(0).normal(size=(LARGE // 64, 64)).astype("float32")
    with formulas_compiled_by(formula_compiler()):
        moved, squares = centred(tf.constant(x), 2.0)
    np.testing.assert_allclose(moved, 2 * (x - x.mean(axis=-1, keepdims=True)), atol=1e-5)
    np.testing.assert_allclose(squares, (x**2).sum(axis=0), rtol=1e-4)


@pytest.mark.xla
def test_one_call_of_xla_where_the_shape_is_known():
    assert must_compile(LARGE // 64, 64)
    assert not must_compile(None, LARGE)
    assert compile_formula(centred) is compile_formula(centred), "compiled again for every use"


def test_none_without_xla_for_cpus(monkeypatch):
    """As in tensorflow-tpu."""
    monkeypatch.setattr(module, "compiles_for_cpus", lambda: False)
    assert formula_compiler() is None


def test_none_on_accelerators(monkeypatch):
    gpu = tf.config.LogicalDevice("/device:GPU:0", "GPU")
    monkeypatch.setattr(
        tf.config, "list_logical_devices", lambda device_type: [gpu] if device_type == "GPU" else []
    )
    assert formula_compiler() is None
