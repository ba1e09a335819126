import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.pretrainer import AlbertPretrainer, pretraining_metrics, pretraining_sums
from albert_tf.optimizers import Lamb
from tests.albert_tf.model.test_encoder import random_inputs
from tests.processes import run_together


def random_batch(config, P=4, seed=5) -> dict:
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
    batch = random_batch(tiny_config)
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


def test_what_has_no_weight_changes_nothing(tiny_config):
    batch = random_batch(tiny_config)
    outputs = AlbertPretrainer(tiny_config, seed=1)(batch)
    sums = pretraining_sums(outputs, batch)
    batch["masked_lm_ids"] = np.where(batch["masked_lm_weights"] == 0, 0, batch["masked_lm_ids"])
    assert {k: float(v) for k, v in pretraining_sums(outputs, batch).items()} == {
        k: float(v) for k, v in sums.items()
    }


def test_no_prediction_is_loss_zero(tiny_config):
    batch = random_batch(tiny_config)
    batch["masked_lm_weights"][:] = 0
    sums = pretraining_sums(AlbertPretrainer(tiny_config)(batch), batch)
    assert float(pretraining_metrics(sums)["masked_lm_loss"]) == 0


def test_fit_trains_with_the_pretraining_loss(tiny_config):
    model, batch = AlbertPretrainer(tiny_config, seed=1), random_batch(tiny_config)
    expected = pretraining_metrics(pretraining_sums(model(batch), batch))["loss"]
    model.compile(Lamb(0.02, global_clipnorm=1.0))
    losses = model.fit(batch, batch_size=3, epochs=5, verbose=0).history["loss"]
    assert losses[0] == pytest.approx(float(expected), abs=1e-5)
    assert losses[-1] < losses[0] - 0.1


def test_fit_leaves_xla_out_on_cpus(tiny_config):
    model = AlbertPretrainer(tiny_config)
    model.compile("adam")
    assert model.jit_compile == bool(tf.config.list_physical_devices("GPU"))


FIT_ON_JAX = """
    import sys
    import numpy as np
    from albert_tf import AlbertConfig, AlbertPretrainer, Lamb
    from tests.albert_tf.model.test_pretrainer import random_batch

    config = AlbertConfig(
        vocab_size=50, embedding_size=10, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=36, max_position_embeddings=16, hidden_dropout_prob=0.1,
    )
    model = AlbertPretrainer(config, seed=1)
    model.compile(Lamb(0.02, global_clipnorm=1.0))
    history = model.fit(random_batch(config), batch_size=3, epochs=20, verbose=0)
    print(*history.history["loss"])
    assert "jax" in sys.modules and type(model.trainable_variables[0].value).__module__.startswith("jax")
"""


@pytest.mark.slow
def test_fit_on_the_jax_backend():
    pytest.importorskip("jax", reason="Keras' JAX backend needs jax")
    command = [["-c", textwrap.dedent(FIT_ON_JAX)]]
    (result,) = run_together(command, [{"KERAS_BACKEND": "jax"}], timeout=240)
    assert result.returncode == 0, result.stderr
    losses = [float(loss) for loss in result.stdout.split()]
    assert losses[-1] < losses[0] - 0.5


def test_save_and_load(tiny_config, tmp_path):
    model, batch = AlbertPretrainer(tiny_config, seed=1), random_batch(tiny_config)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for name, expected in model(batch).items():
        np.testing.assert_array_equal(loaded(batch)[name], expected)
