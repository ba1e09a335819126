"""Which kernels and gradients the parts of a layer use; what they compute is tested through the encoder."""

import dataclasses

import keras
import numpy as np
import pytest

from albert_tf.kernels import formulas, layers
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer


@pytest.mark.parametrize(
    ("backend", "device", "T", "dtype", "expected"),
    [
        ("tensorflow", "gpu:0", 4, "bfloat16", False),
        ("torch", "cpu:0", 3, "float32", True),
        ("jax", "gpu:0", 4, "bfloat16", True),
        ("jax", "gpu:0", 3, "bfloat16", False),
        ("jax", "gpu:0", 4, "float32", False),
        ("jax", "cpu:0", 4, "bfloat16", False),
    ],
)
def test_where_fused_attention_is_one_kernel(monkeypatch, backend, device, T, dtype, expected):
    monkeypatch.setattr(keras.backend, "backend", lambda: backend)
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: [device])
    assert layers.has_fused_attention(T, dtype) == expected


def outputs_and_calls(config, monkeypatch, module, name: str, **call) -> tuple[np.ndarray, int]:
    """The sequence that an encoder of four layers computes, and how often it calls this function."""
    encoder, function, calls = AlbertEncoder(config, seed=1), getattr(module, name), []
    monkeypatch.setattr(
        module, name, lambda *arguments, **more: calls.append(0) or function(*arguments, **more)
    )
    inputs = {"input_ids": np.arange(12).reshape(2, 6), "input_mask": np.tri(2, 6, 4, "int32")}
    return np.asarray(encoder(inputs, **call)["sequence_output"]), len(calls)


@pytest.mark.parametrize(
    ("dropout", "training", "expected"), [(0.0, False, 4), (0.0, True, 4), (0.5, False, 4), (0.5, True, 0)]
)
def test_fused_attention_is_used_unless_it_would_have_dropout(
    tiny_config, monkeypatch, dropout, training, expected
):
    config = dataclasses.replace(tiny_config, attention_probs_dropout_prob=dropout)
    alone, _ = outputs_and_calls(config, monkeypatch, layers, "fused_attention", training=training)
    monkeypatch.setattr(layers, "has_fused_attention", lambda T, dtype: True)
    fused, calls = outputs_and_calls(config, monkeypatch, layers, "fused_attention", training=training)
    assert calls == expected
    np.testing.assert_allclose(fused, alone, atol=1e-5)


def test_fused_attention_needs_as_many_queries_as_keys(tiny_config, monkeypatch):
    """The last layer computes only the wanted positions, and not with the kernel."""
    monkeypatch.setattr(layers, "has_fused_attention", lambda T, dtype: True)
    positions = np.array([[1], [2]])
    _, calls = outputs_and_calls(tiny_config, monkeypatch, layers, "fused_attention", positions=positions)
    assert calls == 3


@pytest.mark.parametrize(("training", "expected"), [(True, 9), (False, 0)])
def test_only_training_keeps_what_the_gradient_of_layer_norm_needs(
    tiny_config, monkeypatch, training, expected
):
    """Of the embeddings and two in each layer."""
    _, calls = outputs_and_calls(tiny_config, monkeypatch, formulas, "_normalize", training=training)
    assert calls == expected


@pytest.mark.parametrize(
    ("training", "remat", "expected"), [(True, True, 2), (True, False, 0), (False, True, 0)]
)
def test_activations_are_recomputed_in_training_on_request(
    tiny_config, monkeypatch, training, remat, expected
):
    """Attention and the feed-forward part of one layer."""
    config = dataclasses.replace(tiny_config, num_hidden_layers=1)
    encoder, calls, original = (
        AlbertEncoder(config, seed=1, remat="activations" if remat else False),
        [],
        keras.remat,
    )
    monkeypatch.setattr(keras, "remat", lambda function: calls.append(0) or original(function))
    encoder({"input_ids": np.arange(12).reshape(2, 6)}, training=training)
    assert len(calls) == expected


@pytest.mark.very_slow
@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method")
@pytest.mark.parametrize("remat", [False, "activations"])
def test_a_quantized_model_computes_the_same_in_training(tiny_config, remat):
    model = AlbertPretrainer(tiny_config, seed=1, remat=remat)
    inputs = {"input_ids": np.arange(12).reshape(2, 6), "masked_lm_positions": np.array([[1], [2]])}
    model.quantize("int8")
    inference, training = (model(inputs, training=training)["masked_lm_logits"] for training in (False, True))
    np.testing.assert_allclose(training, inference, atol=1e-5)
