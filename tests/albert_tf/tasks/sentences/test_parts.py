"""The loss is that of the whole batch, whatever micro-batches and replicas compute it."""

import json

import pytest

from albert_tf.training.tensorflow_devices import TensorFlowDevices
from tests.albert_tf.tasks.sentences.same_steps import train
from tests.processes import run_together

PROGRAM = ("-m", "tests.albert_tf.tasks.sentences.same_steps")
TWO = [json.dumps({"strategy": "mirrored", "num_devices": 2}), '[{}, {"accumulation_steps": 2}]']
ON_JAX = [json.dumps({"num_devices": 2}), '[{}, {"accumulation_steps": 2}, {"kind": "classes"}]']


def assert_equal(result: dict, expected: dict) -> None:
    for name, values in expected.items():
        assert result[name] == pytest.approx(values, abs=1e-5 if name != "weights" else 1e-4), name


@pytest.fixture(scope="module")
def whole() -> dict:
    return train(TensorFlowDevices())


def test_gradient_caching_equals_one_batch(whole):
    assert whole["norms"][0] > 0.1
    assert_equal(train(TensorFlowDevices(), accumulation_steps=4), whole)


@pytest.mark.very_slow
@pytest.mark.parametrize("kind", ["classes", "scores"])
def test_other_losses_in_parts(kind):
    parts, expected = (train(TensorFlowDevices(), kind=kind, accumulation_steps=each) for each in (2, 1))
    assert_equal(parts, expected)


@pytest.mark.slow
def test_replicas_equal_one_batch(whole):
    (result,) = run_together([[*PROGRAM, *TWO]], [{}], timeout=500)
    assert result.returncode == 0, result.stderr
    for found in json.loads(result.stdout):
        assert_equal(found, whole)


@pytest.mark.slow
def test_replicas_of_jax_equal_one_batch(whole):
    pytest.importorskip("jax")
    (result,) = run_together([[*PROGRAM, *ON_JAX]], [{"KERAS_BACKEND": "jax"}], timeout=500)
    assert result.returncode == 0, result.stderr
    *pairs, classes = json.loads(result.stdout)
    for found in pairs:
        assert_equal(found, whole)
    assert_equal(classes, train(TensorFlowDevices(), kind="classes"))
