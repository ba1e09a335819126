"""The arithmetic against TensorFlow's own count of a traced step, and the tables."""

import dataclasses

import keras
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.flops import gpu_peak, inference_flops, tpu_device_peak, tpu_peak, training_flops
from albert_tf.model.pretrainer import AlbertPretrainer, pretraining_sums

B, T, P = 2, 64, 10
CONFIG = AlbertConfig(
    vocab_size=1000,
    embedding_size=64,
    hidden_size=128,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=512,
    max_position_embeddings=T,
)


def test_training_takes_six_operations_per_weight_and_token_plus_attention():
    layer, base = 4 * 768 * 768 + 2 * 768 * 3072, AlbertConfig()
    products = 12 * (6 * layer * 128 + 3 * 4 * 128 * 128 * 768) + 6 * 128 * 768 * 128
    none, some = (training_flops(base, 128, P, whole_last_layer=True) for P in (0, 20))
    assert none == products + 6 * 768 * 770
    assert some - none == 6 * 20 * (768 * 128 + 128 * 30_000)


def counted_flops(config: AlbertConfig, dtype: str = "float32") -> int:
    """What TensorFlow's profiler counts in the matrix products of a forward and backward pass of one example."""
    model = AlbertPretrainer(config, seed=1, dtype=dtype)
    shapes = {
        "input_ids": T,
        "input_mask": T,
        "token_type_ids": T,
        "masked_lm_positions": P,
        "masked_lm_ids": P,
    }
    batch = {name: tf.TensorSpec([B, length], tf.int32) for name, length in shapes.items()}
    batch["masked_lm_weights"] = tf.TensorSpec([B, P])
    batch["sentence_order"] = tf.TensorSpec([B], tf.int32)

    @tf.function
    def step(batch):
        weights = [variable.value for variable in model.trainable_variables]
        with tf.GradientTape() as tape:
            sums = pretraining_sums(model(batch, training=True), batch)
            loss = sums["masked_lm_loss"] + sums["sentence_order_loss"]
        return tape.gradient(loss, weights)

    graph = step.get_concrete_function(batch).graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder(
        tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    )
    options = options.with_empty_output().with_accounted_types([".*MatMul.*"]).build()
    total = tf.compat.v1.profiler.profile(graph, cmd="op", options=options)
    keras.backend.clear_session()
    return sum(_matmuls(total)) // B


def _matmuls(node) -> list[int]:
    return [node.float_ops if "MatMul" in node.name else 0] + [
        flops for child in node.children for flops in _matmuls(child)
    ]


@pytest.mark.very_slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"embedding_size": 128},
        {"inner_group_num": 2},
        {"num_hidden_layers": 1},
        {"parameter_sharing": "none"},
    ],
)
def test_arithmetic_is_what_tensorflow_counts(changes):
    config = dataclasses.replace(CONFIG, **changes)
    assert training_flops(config, T, P) == pytest.approx(counted_flops(config), rel=0.04)


def test_the_paper_run_is_of_the_known_size():
    """ALBERT-base at T=512: 12 layers of 7.1M weights, 6 operations a weight and token, and attention."""
    config = AlbertConfig.from_preset("albert_base_v2")
    by_weights = 6 * 12 * 7_087_872 * 512
    assert by_weights < training_flops(config, 512, 77) < 1.3 * by_weights


@pytest.mark.parametrize("E", [64, 128])
def test_the_products_of_a_small_model(E):
    """Each product of a forward pass by its (m, k, n), and twice as much backward."""
    config = dataclasses.replace(CONFIG, embedding_size=E)
    H, F, V = 128, 512, 1000

    def layer(wanted: int) -> list[tuple[int, int, int]]:
        attention = [(T, H, 2 * H), (wanted, H, H), (wanted, H, T), (wanted, T, H), (wanted, H, H)]
        return [*attention, (wanted, H, F), (wanted, F, H)]

    products = [*layer(T), *layer(T), *layer(P + 1)]
    products += [(1, H, H), (1, H, 2), (P, H, E), (P, E, V)]
    if E != H:
        products.append((T, E, H))
    assert training_flops(config, T, P) == 3 * sum(2 * m * k * n for m, k, n in products)


def test_peaks():
    assert tpu_peak("v4-32") == 16 * 275e12  # the number counts cores, two a chip
    assert tpu_peak("v2-8") == 4 * 45e12
    assert tpu_peak("v3-8") == 4 * 123e12
    assert tpu_peak("v5p-8") == 4 * 459e12
    assert tpu_peak("v6e-8") == 8 * 918e12
    assert tpu_peak("v5litepod-8") == 8 * 197e12
    assert tpu_peak("v99-8") is None
    assert tpu_peak("") is None
    assert tpu_device_peak("TPU v6 lite") == 918e12
    assert tpu_device_peak("TPU7x") == 2307e12 / 2  # a chip has two devices
    assert tpu_device_peak("cpu") is None
    assert gpu_peak("NVIDIA H100 80GB HBM3") == 989e12
    assert gpu_peak("NVIDIA H100 PCIe") == 756e12
    assert gpu_peak("Tesla T4") == 65e12
    assert gpu_peak("NVIDIA A100-SXM4-80GB") == 312e12
    assert gpu_peak("NVIDIA A10") == 125e12
    assert gpu_peak("NVIDIA L40S") == 362e12
    assert gpu_peak("NVIDIA L4") == 121e12
    assert gpu_peak("NVIDIA H100 NVL") == 835e12
    assert gpu_peak("NVIDIA H200") == 989e12
    assert gpu_peak("NVIDIA H200 NVL") == 835e12
    assert gpu_peak("NVIDIA B200") == 2250e12
    assert gpu_peak("Tesla V100-SXM2-16GB") == 125e12
    assert gpu_peak("GeForce 6800") is None


def test_inference_is_the_forward_pass_of_all_tokens():
    every_token = training_flops(CONFIG, T, T - 1) / 3
    heads = 2 * (
        2 * CONFIG.hidden_size + (T - 1) * CONFIG.embedding_size * (CONFIG.hidden_size + CONFIG.vocab_size)
    )
    assert inference_flops(CONFIG, T) == every_token - heads
