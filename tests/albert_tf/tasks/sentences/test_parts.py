"""The loss is that of the whole batch, whatever micro-batches and replicas compute it."""

import json

import keras
import pytest
import tensorflow as tf

from albert_tf import AlbertConfig, AlbertEncoder, SentenceEncoder
from albert_tf.tasks.objective import TaskObjective
from albert_tf.training.micro_batches import dropout_seed
from albert_tf.training.steps import dropout_states
from albert_tf.training.tensorflow_devices import TensorFlowDevices
from albert_tf.training.tensorflow_steps import Gradients
from tests.albert_tf.tasks.sentences.same_steps import CONFIG, batch, train
from tests.processes import run_together

PROGRAM = ("-m", "tests.albert_tf.tasks.sentences.same_steps")
TWO = [json.dumps({"strategy": "mirrored", "num_devices": 2}), '[{}, {"accumulation_steps": 2}]']
ON_JAX = [json.dumps({"num_devices": 2}), '[{}, {"accumulation_steps": 2}, {"kind": "classes"}]']


def assert_equal(result: dict, expected: dict) -> None:
    assert result["losses"] == pytest.approx(expected["losses"], abs=1e-5)
    assert result["norms"] == pytest.approx(expected["norms"], rel=1e-4)
    assert result["weights"] == pytest.approx(expected["weights"], abs=1e-5)


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


def test_both_passes_have_the_same_dropout_masks():
    """The gradient is that of the whole batch, whose micro-batches have the masks of their numbers."""
    config = AlbertConfig(**{**CONFIG.to_dict(), "hidden_dropout_prob": 0.3})
    model = SentenceEncoder(AlbertEncoder(config, seed=1), temperature=0.3)
    objective, step = TaskObjective(model), tf.constant(3)
    data = {name: tf.constant(array) for name, array in batch("pairs").items()}
    counts, variables = objective.counts(data), [variable.value for variable in model.trainable_variables]
    found, sums = Gradients(objective, accumulation_steps=2)(data, counts, step, 0)
    states = dropout_states(model)
    with tf.GradientTape() as tape:
        parts = []
        for number in range(2):
            drawn = [
                dropout_seed(tf.convert_to_tensor(state), step, number * len(states) + i)
                for i, state in enumerate(states)
            ]
            with keras.StatelessScope(list(zip(states, drawn, strict=True))):
                parts.append(
                    objective.rows({name: tf.split(array, 2)[number] for name, array in data.items()})
                )
        rows = {name: tf.concat([part[name] for part in parts], axis=0) for name in parts[0]}
        total = tf.reduce_sum(model.losses_of(rows) * rows["weights"])
        loss = total / counts[0]
    expected = tape.gradient(loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert float(sums[0]) == pytest.approx(float(total), rel=1e-5)
    for ours, theirs in zip(found, expected, strict=True):
        assert tf.convert_to_tensor(ours).numpy() == pytest.approx(
            tf.convert_to_tensor(theirs).numpy(), abs=1e-5
        )
