import dataclasses
import json

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.pretrainer import AlbertPretrainer, pretraining_metrics, pretraining_sums
from albert_tf.optimizers import Lamb
from tests.albert_tf.model.test_encoder import random_inputs
from tests.processes import run_python


def pretraining_batch(config, P=4, seed=5) -> dict:
    inputs = random_inputs(config, seed)
    rng = np.random.default_rng(seed)
    B, T = inputs["input_ids"].shape
    return {
        **inputs,
        "masked_lm_positions": rng.integers(0, T, (B, P)).astype("int32"),
        "masked_lm_ids": rng.integers(0, config.vocab_size, (B, P)).astype("int32"),
        "masked_lm_weights": np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], "float32"),
        "sentence_order": np.array([0, 1, 1], "int32"),
    }


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_losses_and_accuracies_by_hand(tiny_config):
    batch = pretraining_batch(tiny_config)
    outputs = {k: np.asarray(v) for k, v in AlbertPretrainer(tiny_config, seed=1)(batch).items()}
    metrics = {k: float(v) for k, v in pretraining_metrics(pretraining_sums(outputs, batch)).items()}

    weights, ids, order = (batch[n] for n in ("masked_lm_weights", "masked_lm_ids", "sentence_order"))
    log_probs = np.take_along_axis(log_softmax(outputs["masked_lm_logits"]), ids[..., None], -1)[..., 0]
    masked_lm_loss = -(weights * log_probs).sum() / (weights.sum() + 1e-5)
    order_loss = -log_softmax(outputs["sentence_order_logits"])[np.arange(3), order].mean()
    assert metrics["masked_lm_loss"] == pytest.approx(masked_lm_loss, abs=1e-5)
    assert metrics["sentence_order_loss"] == pytest.approx(order_loss, abs=1e-5)
    assert metrics["loss"] == pytest.approx(masked_lm_loss + order_loss, abs=1e-5)
    correct = (outputs["masked_lm_logits"].argmax(-1) == ids) * weights
    assert metrics["masked_lm_accuracy"] == pytest.approx(correct.sum() / 6, abs=1e-5)
    right_order = outputs["sentence_order_logits"].argmax(-1) == order
    assert metrics["sentence_order_accuracy"] == pytest.approx(right_order.mean())


def test_labels_without_weight_change_nothing(tiny_config):
    batch = pretraining_batch(tiny_config)
    outputs = AlbertPretrainer(tiny_config, seed=1)(batch)
    sums = pretraining_sums(outputs, batch)
    batch["masked_lm_ids"] = np.where(batch["masked_lm_weights"] == 0, 0, batch["masked_lm_ids"])
    assert {k: float(v) for k, v in pretraining_sums(outputs, batch).items()} == {
        k: float(v) for k, v in sums.items()
    }


def test_a_batch_without_predictions_has_loss_zero(tiny_config):
    batch = pretraining_batch(tiny_config)
    batch["masked_lm_weights"][:] = 0
    sums = pretraining_sums(AlbertPretrainer(tiny_config)(batch), batch)
    assert float(pretraining_metrics(sums)["masked_lm_loss"]) == 0


@pytest.mark.slow
def test_fit_trains_with_the_pretraining_loss(tiny_config):
    model, batch = AlbertPretrainer(tiny_config, seed=1), pretraining_batch(tiny_config)
    expected = pretraining_metrics(pretraining_sums(model(batch), batch))["loss"]
    model.compile(Lamb(0.02, global_clipnorm=1.0), run_eagerly=True)
    losses = model.fit(batch, batch_size=3, epochs=5, verbose=0).history["loss"]
    assert losses[0] == pytest.approx(float(expected), abs=1e-5)
    assert losses[-1] < losses[0] - 0.1


@pytest.mark.very_slow
def test_fit_in_float16(tiny_config):
    """Where the loss is scaled, as Keras does by itself, LAMB takes the steps that it takes in float32."""
    batch, losses = pretraining_batch(tiny_config), {}
    for dtype in ("float32", "mixed_float16"):
        model = AlbertPretrainer(tiny_config, seed=1, dtype=dtype)
        model.compile(Lamb(0.02, global_clipnorm=1.0))
        losses[dtype] = model.fit(batch, batch_size=3, epochs=5, verbose=0).history["loss"]
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    np.testing.assert_allclose(losses["mixed_float16"], losses["float32"], rtol=0.01)


@pytest.mark.very_slow
def test_evaluate_has_each_tasks_loss_and_accuracy_over_all_batches(tiny_config, tmp_path):
    model, batch = AlbertPretrainer(tiny_config, seed=1), pretraining_batch(tiny_config)
    model.compile("adam")
    assert model.jit_compile == bool(tf.config.list_physical_devices("GPU"))
    expected = pretraining_metrics(pretraining_sums(model(batch), batch))
    # Batches with 4, 2 and no predictions.
    results = model.evaluate(batch, batch_size=1, verbose=0, return_dict=True)
    for name in ("masked_lm_loss", "masked_lm_accuracy", "sentence_order_loss", "sentence_order_accuracy"):
        assert results[name] == pytest.approx(float(expected[name]), abs=1e-4), name
    history = model.fit(batch, batch_size=3, epochs=2, validation_data=batch, verbose=0).history
    assert {*results, *(f"val_{name}" for name in results)} == set(history)

    # They are no part of the model's files.
    model.save_weights(tmp_path / "model.weights.h5")
    with h5py.File(tmp_path / "model.weights.h5") as file:
        assert set(file) == {"encoder", "layers", "optimizer", "vars"}
    model.save(tmp_path / "compiled.keras")
    loaded = keras.saving.load_model(tmp_path / "compiled.keras")
    again = model.evaluate(batch, batch_size=1, verbose=0, return_dict=True)
    assert loaded.evaluate(batch, batch_size=1, verbose=0, return_dict=True) == pytest.approx(again)


def results_of_fit(config, batch) -> dict[str, np.ndarray]:
    """Results of an evaluation and of two steps, and the weights after them."""
    model = AlbertPretrainer(config, seed=1)
    model.compile(keras.optimizers.SGD(0.1))
    evaluated = model.evaluate(batch, batch_size=3, verbose=0)
    losses = model.fit(batch, batch_size=3, epochs=2, verbose=0, shuffle=False).history["loss"]
    weights = {f"weights {i}": weight for i, weight in enumerate(model.get_weights())}
    return {"evaluated": np.array(evaluated), "losses": np.array(losses), **weights}


def batch_for_two(config) -> dict:
    """A batch of three that two replicas cannot share evenly, in which both shares have the same mean loss."""
    return {name: np.repeat(array[:1], 3, axis=0) for name, array in pretraining_batch(config).items()}


ON_TWO_DEVICES = """
import sys
import numpy as np
import tensorflow as tf
from albert_tf.config import AlbertConfig
from tests.albert_tf.model.test_pretrainer import batch_for_two, results_of_fit

device = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
config = AlbertConfig.from_json_file(sys.argv[1])
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    np.savez(sys.argv[2], **results_of_fit(config, batch_for_two(config)))
"""


@pytest.mark.very_slow
def test_fit_on_two_devices_equals_one(tiny_config, tmp_path):
    config = dataclasses.replace(tiny_config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    (tmp_path / "albert_config.json").write_text(json.dumps(config.to_dict()))
    run_python("-c", ON_TWO_DEVICES, tmp_path / "albert_config.json", tmp_path / "two.npz", timeout=300)
    two = np.load(tmp_path / "two.npz")
    for name, array in results_of_fit(config, batch_for_two(config)).items():
        np.testing.assert_allclose(two[name], array, atol=1e-5, err_msg=name)
