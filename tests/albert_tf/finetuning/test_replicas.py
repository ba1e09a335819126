"""Clipping by the global norm, against plain NumPy."""

import keras
import numpy as np
import pytest

from albert_tf.finetuning.replicas import ClippedAdamW, ClippedLamb
from tests.reference.optimizers import ReferenceOptimizer


@pytest.mark.parametrize("kind", [ClippedAdamW, ClippedLamb])
@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_gradients_are_clipped_to_global_norm_1(scale, kind):
    rng = np.random.default_rng(0)
    values = {"kernel": rng.normal(size=(3, 4)), "bias": rng.normal(size=4)}
    gradients = {name: scale * rng.normal(size=value.shape) for name, value in values.items()}
    variables = [keras.Variable(value, name=name) for name, value in values.items()]
    optimizer = kind(0.1)
    optimizer.apply_gradients(zip(gradients.values(), variables, strict=True))
    norm = np.sqrt(sum(np.sum(gradient**2) for gradient in gradients.values()))
    assert (norm > 1) == (scale == 100.0)
    assert float(optimizer.gradient_norm.result()) == pytest.approx(norm, rel=1e-5)
    reference = ReferenceOptimizer(values, lambda step: 0.1, trust_ratio=kind is ClippedLamb)
    reference.step({name: gradient / max(norm, 1.0) for name, gradient in gradients.items()})
    for variable, name in zip(variables, values, strict=True):
        np.testing.assert_allclose(variable.numpy(), reference.weights[name], rtol=1e-5)


def test_moving_averages():
    """Averages start from the weights after the first step, for every variable, whatever has a gradient."""
    unused, used = keras.Variable(np.full(2, 5.0), name="unused"), keras.Variable(np.ones(2), name="used")
    optimizer = ClippedAdamW(0.1, use_ema=True, ema_momentum=0.75)
    optimizer.build([unused, used])
    average = None
    for _ in range(3):
        optimizer.apply([None, np.full(2, 3.0, "float32")], [unused, used])
        average = used.numpy() if average is None else 0.75 * average + 0.25 * used.numpy()
    assert np.abs(average - used.numpy()).min() > 0.05
    optimizer.finalize_variable_values([unused, used])
    np.testing.assert_allclose(used.numpy(), average, rtol=1e-6)
    np.testing.assert_array_equal(unused.numpy(), [5.0, 5.0])


def test_a_variable_without_gradient_does_not_change():
    used, unused = keras.Variable(np.ones(2), name="a"), keras.Variable(np.ones(2), name="b")
    optimizer = ClippedAdamW(0.1)
    optimizer.build([used, unused])
    optimizer.apply([np.full(2, 3.0, "float32"), None], [used, unused])
    np.testing.assert_array_equal(unused.numpy(), np.ones(2))
    assert (used.numpy() < 1).all()
