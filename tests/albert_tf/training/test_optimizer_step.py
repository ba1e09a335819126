"""The optimizer step of a linear model, against plain NumPy."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.optimizers import AdamW, Lamb
from albert_tf.training.tensorflow_devices import TensorFlowDevices
from tests.reference.optimizers import ReferenceOptimizer


class Linear:
    """The objective w * x + b of a model with two arrays and a third one that it does not use."""

    names = ("rows",)

    def __init__(self, values: dict[str, np.ndarray]):
        seeds = keras.random.SeedGenerator(1)
        variables = [keras.Variable(value, dtype="float32", name=name) for name, value in values.items()]
        self.model = types.SimpleNamespace(
            trainable_variables=variables,
            non_trainable_weights=[],
            encoder=types.SimpleNamespace(seeds=seeds, kernels=None),
        )

    def counts(self, batch):
        return [tf.cast(tf.shape(batch["x"])[0], tf.float32)]

    def needs_rows(self, batch):
        return False

    def loss_and_sums(self, batch, counts):
        kernel, bias, _ = self.model.trainable_variables
        total = tf.reduce_sum(batch["x"] * kernel) + tf.reduce_sum(batch["y"] * bias)
        return total / counts[0], counts[0][tf.newaxis]


def values() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"kernel": rng.normal(size=4), "bias": rng.normal(size=3), "unused_bias": np.full(2, 5.0)}


def take_step(objective: Linear, optimizer, gradients: dict[str, np.ndarray], **options) -> dict[str, float]:
    """A step whose two rows have these gradients and three times them, twice the gradients on average."""
    optimizer.build(objective.model.trainable_variables)
    step = TensorFlowDevices().optimizer_step(objective, optimizer, **options)
    rows = {
        name: np.stack([gradients[key], 3 * gradients[key]]).astype("float32")
        for name, key in (("x", "kernel"), ("y", "bias"))
    }
    batches = iter(tf.data.Dataset.from_tensors(rows).repeat())
    return {name: float(value) for name, value in step(batches, 1, step.zero_sums()).items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [AdamW, Lamb])
@pytest.mark.parametrize(("scale", "parts"), [(0.01, 1), (100.0, 2)])
def test_gradients_are_clipped_to_global_norm_1(scale, parts, kind):
    rng = np.random.default_rng(1)
    gradients = {"kernel": scale * rng.normal(size=4), "bias": scale * rng.normal(size=3)}
    objective = Linear(values())
    sums = take_step(objective, kind(0.1), gradients, accumulation_steps=parts)
    norm = 2 * np.sqrt(sum(np.sum(gradient**2) for gradient in gradients.values()))
    assert (norm > 1) == (scale == 100.0)
    assert sums["gradient_norm"] == pytest.approx(norm, rel=1e-5)
    assert (sums["steps"], sums["skipped_steps"]) == (1, 0)
    reference = ReferenceOptimizer(values(), lambda step: 0.1, trust_ratio=kind is Lamb)
    gradients |= {"unused_bias": np.zeros(2)}
    reference.step({name: 2 * gradient / max(norm, 1.0) for name, gradient in gradients.items()})
    for variable in objective.model.trainable_variables:
        np.testing.assert_allclose(variable.numpy(), reference.weights[variable.name], rtol=1e-5)


@pytest.mark.slow
def test_moving_averages():
    """They start from the weights after the first step."""
    objective, optimizer = Linear(values()), AdamW(0.1, use_ema=True, ema_momentum=0.75)
    kernel, average = objective.model.trainable_variables[0], None
    for _ in range(3):
        take_step(objective, optimizer, {"kernel": np.full(4, 3.0), "bias": np.zeros(3)})
        average = kernel.numpy() if average is None else 0.75 * average + 0.25 * kernel.numpy()
    assert np.abs(average - kernel.numpy()).min() > 0.05
    optimizer.finalize_variable_values(objective.model.trainable_variables)
    np.testing.assert_allclose(kernel.numpy(), average, rtol=1e-6)


def test_a_step_begins_after_the_wait_for_its_batch_is_measured():
    """Otherwise one core may read the clock after the step, and the input seems to take all the time."""
    objective, optimizer = Linear(values()), AdamW(0.1)
    optimizer.build(objective.model.trainable_variables)
    step = TensorFlowDevices().optimizer_step(objective, optimizer)
    rows = {"x": np.zeros((2, 4), "float32"), "y": np.zeros((2, 3), "float32")}
    batches = iter(tf.data.Dataset.from_tensors(rows).repeat())
    graph = step._take_steps.get_concrete_function(batches, tf.constant(1), step.zero_sums()).graph
    (loop,) = [op for op in graph.get_operations() if "While" in op.type]
    body = graph._get_function(loop.get_attr("body").name).graph
    clocks = [op for op in body.get_operations() if op.type == "Timestamp"]
    gradients = [op for op in body.get_operations() if op.type == "Mul"]
    assert len(clocks) == 2 and gradients
    assert all(set(clocks) <= ancestors(op) for op in gradients)


def ancestors(op: tf.Operation) -> set[tf.Operation]:
    """All operations that run before another."""
    found: set[tf.Operation] = set()
    waiting = [op]
    while waiting:
        op = waiting.pop()
        before = {tensor.op for tensor in op.inputs} | set(op.control_inputs)
        waiting += before - found
        found |= before
    return found
