"""Tests of albert_tf/runtime/openvino_graph.py."""

import numpy as np
import pytest

from albert_tf.runtime.openvino_graph import round_before_products

openvino = pytest.importorskip("openvino", reason="an extra: pip install '.[openvino]'")
op = openvino.opset13


def residual_model():
    """x -> two residual sums with products -> `hidden` and `probabilities`; returns it as an openvino.Model."""
    rng = np.random.default_rng(0)
    x = op.parameter([-1, 8], np.float32, name="x")
    hidden = x
    for number in range(2):
        product = op.matmul(hidden, rng.standard_normal((8, 8)).astype("float32"), False, False)
        hidden = op.add(hidden, op.tanh(product), name=f"sum_{number}")
    logits = op.matmul(hidden, rng.standard_normal((8, 4)).astype("float32"), False, False, name="logits")
    probabilities = op.softmax(logits, 1, name="probabilities")
    half = op.multiply(hidden, np.full((), 0.5, "float32"), name="half")
    return openvino.Model([half, probabilities], [x])


def marked(model) -> set[str]:
    return {
        node.get_friendly_name()
        for node in model.get_ops()
        if "enforceBF16evenForGraphTail" in node.get_rt_info()
    }


def test_marks_what_products_read_and_nothing_behind_the_last_one():
    model = residual_model()
    round_before_products(model)
    named = {"x", "sum_0", "sum_1", "logits", "probabilities", "half"}
    assert marked(model) & named == {"x", "sum_0", "sum_1"}


def test_sums_are_bfloat16_and_outputs_stay_near():
    """The sum that OpenVINO would compute in float32, because an output leads to it past no product."""
    core = openvino.Core()
    if "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip("this processor has no bfloat16")
    hint = {"INFERENCE_PRECISION_HINT": "bf16"}
    x = np.random.default_rng(1).standard_normal((5, 8)).astype("float32")
    expected = core.compile_model(residual_model(), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)
    found = {}
    for is_changed in (False, True):
        model = residual_model()
        if is_changed:
            round_before_products(model)
        compiled = core.compile_model(model, "CPU", hint)
        kinds = {
            node.get_friendly_name(): node.get_rt_info()["runtimePrecision"].astype(str)
            for node in compiled.get_runtime_model().get_ops()
        }
        found[is_changed] = {name: kind for name, kind in kinds.items() if name.startswith("sum")}
        for ours, exact in zip(compiled(x).to_tuple(), expected.to_tuple(), strict=True):
            np.testing.assert_allclose(ours, exact, rtol=0.05, atol=0.1)
    assert set(found[False].values()) == {"f32"}
    assert set(found[True].values()) == {"bf16"}
