"""The steps of JAX, on one device and on four, are those of TensorFlow."""

import json

import pytest

from albert_tf.training.tensorflow_devices import TensorFlowDevices
from tests.albert_tf.pretraining.same_steps import B, train
from tests.processes import run_together

pytest.importorskip("jax")

PROGRAM = ("-m", "tests.albert_tf.pretraining.same_steps")
ON_ONE = {"devices": 1}
WITH_DROPOUT = {"steps": 10, "dropout": 0.2, "shape": {"attention_probs_dropout_prob": 0.2}}
# As in test_steps.py: only other masks make micro-batches of equal examples differ.
SAME_EXAMPLE = {"dropout": 0.5, "same_example": True, "peak": 1e-9}
LOOP = {"shape": {"num_hidden_layers": 4}, "scan_layers": True}
OPTIONS = {
    "four": {},
    "one": ON_ONE,
    "adamw": {"kind": "adamw", "peak": 0.002},
    "micro-batches": {"accumulation_steps": 2},
    "remat": {"remat": "layers"},
    "activations": {"remat": "activations"},
    "loop": LOOP,
    "bfloat16": {"dtype": "mixed_bfloat16"},
    "dropout": WITH_DROPOUT,
    "dropout on one": {**WITH_DROPOUT, **ON_ONE, "accumulation_steps": 4},
    "dropout recomputed": {**WITH_DROPOUT, "remat": "layers"},
    "masks": SAME_EXAMPLE,
    "masks of micro-batches": {**SAME_EXAMPLE, **ON_ONE, "accumulation_steps": B},
}


def run(names) -> dict[str, dict]:
    """The results of some of `OPTIONS`, all in one process with four devices."""
    command = [*PROGRAM, json.dumps({"num_devices": 4}), json.dumps([OPTIONS[name] for name in names])]
    (result,) = run_together([command], [{"KERAS_BACKEND": "jax"}], timeout=500)
    assert result.returncode == 0, result.stderr
    return dict(zip(names, json.loads(result.stdout), strict=True))


@pytest.fixture(scope="module")
def results() -> dict[str, dict]:
    return run(OPTIONS)


def assert_equal(result: dict, expected: dict, tolerance: float) -> None:
    assert result["trace"] == pytest.approx(expected["trace"], abs=tolerance)
    assert result["weights"] == pytest.approx(expected["weights"], abs=10 * tolerance)
    assert result["evaluation"] == pytest.approx(expected["evaluation"], abs=tolerance)


@pytest.mark.slow
def test_four_devices_equal_tensorflow():
    assert_equal(run(["four"])["four"], train(TensorFlowDevices()), 1e-5)


@pytest.mark.very_slow
@pytest.mark.parametrize("name", ["adamw", "loop", "micro-batches"])
def test_equals_tensorflow(results, name):
    assert_equal(results[name], train(TensorFlowDevices(), **OPTIONS[name]), 1e-5)


@pytest.mark.very_slow
@pytest.mark.parametrize("name", ["one", "micro-batches", "remat", "activations"])
def test_one_device_and_four_agree_however_they_compute(results, name):
    assert_equal(results[name], results["four"], 1e-6)


@pytest.mark.very_slow
def test_dropout_masks(results):
    """They depend on the step, the replica and the micro-batch alone."""
    assert_equal(results["dropout on one"], results["dropout"], 1e-6)
    assert_equal(results["dropout recomputed"], results["dropout"], 1e-6)
    for name, streams in (("masks", 4), ("masks of micro-batches", B)):
        trace, correct = results[name]["trace"], results[name]["correct"]
        assert any(number % streams for number in correct), correct
        assert len(set(trace)) == len(trace), "two steps share no masks"


@pytest.mark.very_slow
def test_bfloat16_learns_as_float32_does(results):
    half = results["bfloat16"]
    assert half["trace"] != results["four"]["trace"]
    assert half["trace"] == pytest.approx(results["four"]["trace"], abs=0.05)
    assert half["dtypes"] == ["float32", "int32"], "weights and moments; the count of steps"
