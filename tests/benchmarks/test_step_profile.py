"""A profiled step: every operation has a type, and the times of all purposes add up to the total."""

import pytest

from albert_tf.lab.training_step import make_training_step, random_training_batch
from benchmarks.step_profile import REST, by_purpose, operation, operation_seconds


@pytest.mark.slow
def test_operations_of_a_step(tiny_config):
    step = make_training_step(tiny_config, random_training_batch(4, 16, 2, tiny_config.vocab_size), "float32")
    step()
    seconds = operation_seconds(step)
    assert min(seconds.values()) >= 0
    assert any("MatMul" in kind for kind in seconds)
    totals = by_purpose(seconds)
    assert sum(totals.values()) == pytest.approx(sum(seconds.values()))
    assert {"matrix products with their biases", "casts", REST} <= set(totals)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("while/body/_1/query/MatMul:_MklMatMul", "_MklMatMul"),
        ("CpuExecutable::ExecuteAsyncOnStream", "XLA"),
        ("ExecutorState::Process", None),
        ("FunctionRun: __inference_train_steps_1", None),
        ("multiply_convert_fusion", None),
    ],
)
def test_events_of_operations(event, kind):
    assert operation(event) == kind


def test_batched_products_are_not_the_dense_ones():
    assert by_purpose({"_MklBatchMatMulV2": 1.0, "_MklMatMul": 2.0, "Tanh": 4.0}) == {
        REST: 4.0,
        "matrix products with their biases": 2.0,
        "products of tokens with tokens": 1.0,
    }
