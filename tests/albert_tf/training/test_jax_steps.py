"""The steps of JAX, on one device and on four, are those of TensorFlow."""

import json

import pytest

from albert_tf.training.tensorflow_devices import TensorFlowDevices
from tests.albert_tf.pretraining.same_steps import train
from tests.processes import run_together

pytest.importorskip("jax")

PROGRAM = ("-m", "tests.albert_tf.pretraining.same_steps")
WITH_DROPOUT = {"steps": 10, "dropout": 0.2, "shape": {"attention_probs_dropout_prob": 0.2}}
OPTIONS = {
    "four": {},
    "micro-batches": {"accumulation_steps": 2},
    "loop": {"shape": {"num_hidden_layers": 4}, "scan_layers": True},
    "dropout": WITH_DROPOUT,
    "dropout on one": {**WITH_DROPOUT, "devices": 1, "accumulation_steps": 4},
    "dropout recomputed": {**WITH_DROPOUT, "remat": "layers"},
    # As in test_steps.py: only other masks make micro-batches of equal examples differ.
    "masks": {"dropout": 0.5, "same_example": True, "peak": 1e-9},
}


def run(names) -> dict[str, dict]:
    """The results of some of `OPTIONS`, all in one process with four devices."""
    command = [*PROGRAM, json.dumps({"num_devices": 4}), json.dumps([OPTIONS[name] for name in names])]
    (result,) = run_together([command], [{"KERAS_BACKEND": "jax"}], timeout=500)
    assert result.returncode == 0, result.stderr
    return dict(zip(names, json.loads(result.stdout), strict=True))


@pytest.fixture(scope="module")
def results() -> dict[str, dict]:
    return run([name for name in OPTIONS if name != "four"])


def assert_equal(result: dict, expected: dict, tolerance: float) -> None:
    assert result["trace"] == pytest.approx(expected["trace"], abs=tolerance)
    assert result["weights"] == pytest.approx(expected["weights"], abs=10 * tolerance)
    assert result["evaluation"] == pytest.approx(expected["evaluation"], abs=tolerance)


@pytest.mark.slow
def test_four_devices_equal_tensorflow():
    assert_equal(run(["four"])["four"], train(TensorFlowDevices()), 1e-5)


@pytest.mark.very_slow
@pytest.mark.parametrize("name", ["loop", "micro-batches"])
def test_equals_tensorflow(results, name):
    assert_equal(results[name], train(TensorFlowDevices(), **OPTIONS[name]), 1e-5)


@pytest.mark.very_slow
def test_dropout_masks(results):
    """They depend on the step, the replica and the micro-batch alone."""
    assert_equal(results["dropout on one"], results["dropout"], 1e-6)
    assert_equal(results["dropout recomputed"], results["dropout"], 1e-6)
    trace, correct = results["masks"]["trace"], results["masks"]["correct"]
    assert any(number % 4 for number in correct), correct
    assert len(set(trace)) == len(trace), "two steps share no masks"
