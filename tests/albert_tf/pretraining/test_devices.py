"""XLA for the step or for its formulas, and how replicas and cores divide a batch."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.kernels.formulas import LARGE
from albert_tf.pretraining import devices
from albert_tf.pretraining.devices import (
    SMALLEST_PART,
    check_batches,
    choose_parallel_parts,
    compile_formula,
    formula_compiler,
    split_batches_over_cores,
    step_options,
)
from albert_tf.pretraining.plan import PretrainingPlan
from albert_tf.training.step_loop import iterations_per_loop
from albert_tf.training.tensorflow_devices import TensorFlowDevices
from data_prep.errors import InputError
from tests.albert_tf.kernels.test_formulas import centred, formulas_compiled
from tests.albert_tf.pretraining.plans import plan_of
from tests.processes import run_python


def settings(**flags) -> PretrainingPlan:
    return plan_of((16, 2), **flags)


def test_xla_is_for_gpus():
    options = {
        flag: step_options(settings(jit_compile=flag), TensorFlowDevices(), 2)
        for flag in ("auto", "on", "off")
    }
    compiled = {flag: each["jit_compile"] for flag, each in options.items()}
    assert compiled == {"auto": bool(tf.config.list_logical_devices("GPU")), "on": True, "off": False}
    assert options["on"]["formula_compiler"] is None
    assert options["off"]["parallel_parts"] == 2


def test_steps_per_call():
    devices = TensorFlowDevices()
    assert iterations_per_loop(None, devices) is None
    assert iterations_per_loop(7, devices) == 7


def test_a_batch_that_cannot_be_shared():
    devices = TensorFlowDevices()
    check_batches(settings(train_batch_size=12, gradient_accumulation_steps=4), devices)
    with pytest.raises(InputError, match="Received 14, which is not divisible by 1 x 4; use for instance 12"):
        check_batches(settings(train_batch_size=14, gradient_accumulation_steps=4), devices)
    with pytest.raises(InputError, match="use for instance 4"):
        check_batches(settings(train_batch_size=2, gradient_accumulation_steps=4), devices)


PROGRAM = """
import json, os, sys
from albert_tf.pretraining.devices import split_batches_over_cores
import tensorflow as tf
cases, runs = json.loads(sys.argv[1])
if runs:
    tf.zeros(())
for cores, batch_size, T, H in cases:
    os.sched_getaffinity = lambda process: range(cores)
    parts = split_batches_over_cores([(64, T), (batch_size, T)], H)
    threading = tf.config.threading
    print([parts, threading.get_intra_op_parallelism_threads(), threading.get_inter_op_parallelism_threads()])
"""
LEFT_TO_TENSORFLOW = [1, 0, 0]


def taken(*cases: tuple[int, int, int, int], runs: bool = False) -> list[list[int]]:
    """The number of parts, and TensorFlow's threads in an operation and between operations.

    Args:
      cases: cores, examples, T and H, in turn in one process.
      runs: whether TensorFlow has started in it before.
    """
    return [json.loads(line) for line in run_python("-c", PROGRAM, json.dumps([cases, runs])).splitlines()]


@pytest.mark.very_slow
def test_each_core_computes_a_part_unless_parts_are_uneven_or_small():
    one_core, odd, few = (1, 16, 128, 768), (2, 15, 512, 768), (4, 2, 512, 1024)
    small = (2, 2, SMALLEST_PART // 8 - 1, 8)
    *left, apart = taken(one_core, odd, small, few, (4, 4, SMALLEST_PART // 8, 8))
    assert left == [LEFT_TO_TENSORFLOW] * 4
    assert apart == [4, 1, 4]


@pytest.mark.very_slow
def test_threads_are_not_changed_after_tensorflow_has_started():
    assert taken((2, 16, 128, 768), runs=True) == [LEFT_TO_TENSORFLOW]


def test_threads_set_by_the_environment(monkeypatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "2")
    assert split_batches_over_cores([(64, 512)], 768) == 1


@pytest.mark.parametrize(
    "flags",
    [{"strategy": "mirrored"}, {"num_devices": 2}, {"tpu": "local"}, {"jit_compile": "on"}],
)
def test_the_batch_is_not_split_over_cores_if_it_is_divided_otherwise(monkeypatch, flags):
    monkeypatch.setattr(devices, "split_batches_over_cores", lambda batches, H: (batches, H))
    batch = {"train_batch_size": 64, "gradient_accumulation_steps": 2}
    assert choose_parallel_parts(settings(**batch)) == ([(32, 16)], 768)
    assert choose_parallel_parts(settings(**batch, **flags)) == 1


def test_strategy_one_ignores_tf_config(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{")
    monkeypatch.setattr(devices, "split_batches_over_cores", lambda *sizes: 2)
    assert choose_parallel_parts(settings(strategy="one")) == 2


def must_compile(*shape) -> bool:
    """Whether a graph over an array of a shape has a call that XLA must compile."""
    function = tf.function(lambda x: formulas_compiled().compute(centred, x, 2.0))
    traced = function.get_concrete_function(tf.TensorSpec(shape))
    calls = [node for node in traced.graph.as_graph_def().node if "PartitionedCall" in node.op]
    return any(call.attr["_XlaMustCompile"].b for call in calls)


@pytest.mark.xla
def test_compiled_formulas_have_the_same_values():
    x = np.random.default_rng(0).normal(size=(LARGE // 64, 64)).astype("float32")
    moved, squares = formulas_compiled().compute(centred, tf.constant(x), 2.0)
    np.testing.assert_allclose(moved, 2 * (x - x.mean(axis=-1, keepdims=True)), atol=1e-5)
    np.testing.assert_allclose(squares, (x**2).sum(axis=0), rtol=1e-4)


@pytest.mark.xla
def test_formulas_are_compiled_if_the_shape_is_known():
    assert must_compile(LARGE // 64, 64)
    assert not must_compile(None, LARGE)
    assert compile_formula(centred) is compile_formula(centred), "compiled anew for every use"


def test_no_formula_compiler_without_xla_for_cpus(monkeypatch):
    """As in tensorflow-tpu."""
    monkeypatch.setattr(devices, "compiles_for_cpus", lambda: False)
    assert formula_compiler() is None


def test_no_formula_compiler_on_accelerators(monkeypatch):
    gpu = tf.config.LogicalDevice("/device:GPU:0", "GPU")
    monkeypatch.setattr(
        tf.config, "list_logical_devices", lambda device_type: [gpu] if device_type == "GPU" else []
    )
    assert formula_compiler() is None


WITHOUT_YNNPACK = """
import os
import tensorflow as tf
from keras import ops
from albert_tf.pretraining.devices import formula_compiler
from albert_tf.training.tensorflow_devices import TensorFlowDevices
total = formula_compiler()(lambda x: ops.sum(x, axis=0))
print(total.experimental_get_compiler_ir(tf.ones((300, 400)))(stage="optimized_hlo"))
print("XLA_FLAGS:", os.environ.get("XLA_FLAGS"))
"""


@pytest.mark.very_slow
@pytest.mark.parametrize("flags", [None, "--xla_backend_optimization_level=0"])
def test_formulas_do_not_use_ynnpack(monkeypatch, flags):
    """It is not safe in several threads; and the environment is as before."""
    monkeypatch.delenv("XLA_FLAGS")
    if flags:
        monkeypatch.setenv("XLA_FLAGS", flags)
    printed = run_python("-c", WITHOUT_YNNPACK)
    assert "reduce(" in printed
    assert "ynn" not in printed
    assert printed.rstrip().endswith(f"XLA_FLAGS: {flags}")
