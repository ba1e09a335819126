"""Keras `fit` on several JAX devices, and what follows it on TensorFlow."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf import AlbertPretrainer, TextClassifier
from tests.processes import run_together

FOUR_DEVICES = {
    "KERAS_BACKEND": "jax",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0",  # compiles sooner
}

pytestmark = pytest.mark.very_slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What jax_fit.py writes."""
    pytest.importorskip("jax", reason="Keras' JAX backend needs jax")
    path = tmp_path_factory.mktemp("jax")
    command = ["-m", "tests.albert_tf.tasks.jax_fit", path]
    (result,) = run_together([command], [FOUR_DEVICES], timeout=500)
    assert result.returncode == 0, result.stderr[-3000:]
    return path


@pytest.mark.parametrize("name", ["pretrainer", "classifier"])
@pytest.mark.parametrize("run", ["four", "resumed"])
def test_twenty_steps_on_four_devices_equal_one(folder, name, run):
    expected, found = (np.load(folder / f"{name}-{way}.npz") for way in ("one", run))
    assert found.files == expected.files
    for key in expected.files:
        np.testing.assert_allclose(found[key], expected[key], rtol=0, atol=1e-5, err_msg=key)


@pytest.mark.parametrize(
    ("name", "model_class"), [("pretrainer", AlbertPretrainer), ("classifier", TextClassifier)]
)
def test_a_model_trained_on_jax_is_exported_on_tensorflow(folder, name, model_class, tmp_path):
    inputs, outputs = (np.load(folder / f"{name}-{kind}.npz") for kind in ("inputs", "outputs"))
    model = keras.saving.load_model(folder / f"{name}.keras", compile=False)
    assert type(model) is model_class
    model.export(tmp_path / "saved", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "saved")
    served = loaded.serve({key: tf.constant(inputs[key]) for key in inputs.files})
    for found, expected in zip(keras.tree.flatten(served), outputs.values(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
