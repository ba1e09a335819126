import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from tests.reference import albert as reference

B, T = 3, 9

VARIANTS = {
    "all": {},
    "attention": {"parameter_sharing": "attention"},
    "ffn": {"parameter_sharing": "ffn"},
    "none": {"parameter_sharing": "none"},
    "2 groups": {"num_hidden_groups": 2},
    "3 groups, 2 inner": {"num_hidden_groups": 3, "inner_group_num": 2},
    "none, 2 inner": {"parameter_sharing": "none", "inner_group_num": 2},
    "E == H": {"embedding_size": 24},
    "relu": {"hidden_act": "relu"},
    "gelu_erf": {"hidden_act": "gelu_erf"},
    "tanh": {"hidden_act": "tanh"},
    "linear": {"hidden_act": "linear"},
}


# With the kernels of albert_tf/kernels, and by the textbook alone.
EITHER_WAY = pytest.mark.parametrize("plain", [False, True], ids=["kernels", "plain"])


def make_encoder(config, seed=3, **options) -> AlbertEncoder:
    """An encoder with random weights: zero biases and unit gammas would hide a swapped or missing one."""
    encoder = AlbertEncoder(config, seed=seed, **options)
    rng = np.random.default_rng(seed)
    for weight in encoder.trainable_variables:
        weight.assign(weight.numpy() + rng.normal(0, 0.3, weight.shape))
    return encoder


def random_inputs(config, seed=0) -> dict:
    rng = np.random.default_rng(seed)
    lengths = np.array([T, T - 4, 1])
    return {
        "input_ids": rng.integers(0, config.vocab_size, (B, T)).astype("int32"),
        "input_mask": (np.arange(T) < lengths[:, None]).astype("int32"),
        "token_type_ids": rng.integers(0, config.type_vocab_size, (B, T)).astype("int32"),
    }


def weights_of(encoder) -> dict:
    return {v.path.removeprefix("albert_encoder/"): v.numpy() for v in encoder.trainable_variables}


@pytest.mark.slow
@EITHER_WAY
@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_equals_the_numpy_oracle(tiny_config, changes, plain):
    config = AlbertConfig.from_dict({**tiny_config.to_dict(), **changes})
    encoder = make_encoder(config, plain=plain)
    inputs = random_inputs(config)
    outputs = encoder(inputs, intermediates=True)
    for row in range(B):
        layers, pooled = reference.encoder(
            config,
            weights_of(encoder),
            *(inputs[n][row] for n in ("input_ids", "input_mask", "token_type_ids")),
        )
        np.testing.assert_allclose(outputs["embedding_output"][row], layers[0], atol=1e-5, rtol=0)
        assert len(outputs["encoder_outputs"]) == config.num_hidden_layers
        for ours, expected in zip(outputs["encoder_outputs"], layers[1:], strict=True):
            np.testing.assert_allclose(ours[row], expected, atol=1e-5, rtol=0)
        np.testing.assert_allclose(outputs["sequence_output"][row], layers[-1], atol=1e-5, rtol=0)
        np.testing.assert_allclose(outputs["pooled_output"][row], pooled, atol=1e-5, rtol=0)


@pytest.mark.parametrize("sharing", ["all", "none"])
def test_attention_maps_equal_the_numpy_oracle(tiny_config, sharing):
    config = AlbertConfig.from_dict({**tiny_config.to_dict(), "parameter_sharing": sharing})
    encoder, inputs = make_encoder(config), random_inputs(config)
    maps = encoder.attention_maps(inputs)
    assert len(maps) == config.num_hidden_layers
    weights = weights_of(encoder)
    for row in range(B):
        ids, mask, types = (inputs[n][row] for n in ("input_ids", "input_mask", "token_type_ids"))
        layers, _ = reference.encoder(config, weights, ids, mask, types)
        for layer, found in enumerate(maps):
            name = f"attention_{layer if sharing == 'none' else 0}_0"
            expected = reference.attention_map(layers[layer], mask, weights, name, config.num_attention_heads)
            np.testing.assert_allclose(found[row], expected, atol=1e-6)


def test_attention_maps_of_inner_groups(tiny_config):
    config = AlbertConfig.from_dict({**tiny_config.to_dict(), **VARIANTS["3 groups, 2 inner"]})
    maps = make_encoder(config).attention_maps(random_inputs(config))
    assert len(maps) == 2 * config.num_hidden_layers
    np.testing.assert_allclose(np.sum(maps, axis=-1), 1, rtol=1e-5)
    assert np.abs(np.diff(maps, axis=0)).max(axis=(1, 2, 3, 4)).min() > 1e-3  # no two are equal


@EITHER_WAY
def test_oracle_notices_swapped_query_and_key(tiny_config, plain):
    encoder = make_encoder(tiny_config, plain=plain)
    inputs = random_inputs(tiny_config)
    weights = weights_of(encoder)
    for part in ("kernel", "bias"):
        query, key = f"attention_0_0/query/{part}", f"attention_0_0/key/{part}"
        weights[query], weights[key] = weights[key], weights[query]
    layers, _ = reference.encoder(
        tiny_config, weights, *(inputs[n][0] for n in ("input_ids", "input_mask", "token_type_ids"))
    )
    assert np.abs(encoder(inputs)["sequence_output"][0] - layers[-1]).max() > 1e-2


@EITHER_WAY
def test_padding_does_not_change_the_outputs(tiny_config, plain):
    encoder = make_encoder(tiny_config, plain=plain)
    inputs = random_inputs(tiny_config)
    inputs["input_mask"][:] = 1
    padded = {name: np.pad(array, ((0, 0), (0, 5))) for name, array in inputs.items()}
    padded["input_ids"][:, T:] = 7  # the ids in the padding do not matter
    short, long = encoder(inputs), encoder(padded)
    np.testing.assert_allclose(long["sequence_output"][:, :T], short["sequence_output"], atol=2e-6)
    np.testing.assert_allclose(long["pooled_output"], short["pooled_output"], atol=2e-6)


@EITHER_WAY
def test_a_row_of_only_padding_is_finite(tiny_config, plain):
    inputs = random_inputs(tiny_config)
    inputs["input_mask"][1] = 0
    for dtype in ("float32", "mixed_bfloat16"):
        outputs = AlbertEncoder(tiny_config, dtype=dtype, plain=plain)(inputs)
        assert np.isfinite(np.asarray(keras.ops.cast(outputs["sequence_output"], "float32"))).all()


def test_mask_and_types_default_to_ones_and_zeros(tiny_config):
    encoder = make_encoder(tiny_config)
    ids = random_inputs(tiny_config)["input_ids"]
    implicit = encoder({"input_ids": ids})
    explicit = encoder(
        {"input_ids": ids, "input_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    )
    np.testing.assert_array_equal(implicit["sequence_output"], explicit["sequence_output"])


@pytest.mark.slow
def test_seed_fixes_weights_and_dropout(tiny_config):
    config = AlbertConfig.from_dict({**tiny_config.to_dict(), "hidden_dropout_prob": 0.5})
    inputs = random_inputs(config)
    first, second, other = (AlbertEncoder(config, seed=seed) for seed in (1, 1, 2))
    for a, b in zip(first.trainable_variables, second.trainable_variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    word, key = "embeddings/word_embeddings", "attention_0_0/key/kernel"
    assert not np.array_equal(weights_of(first)[word], weights_of(other)[word])
    assert not np.array_equal(weights_of(first)["attention_0_0/query/kernel"], weights_of(first)[key])
    one, two = (e(inputs, training=True)["sequence_output"] for e in (first, second))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, first(inputs, training=True)["sequence_output"])  # a new mask each call
    assert not np.array_equal(one, first(inputs)["sequence_output"])


@EITHER_WAY
def test_dropout_is_applied_where_the_original_applies_it(tiny_config, monkeypatch, plain):
    config = AlbertConfig.from_dict(
        {**tiny_config.to_dict(), "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2}
    )
    rates = []
    monkeypatch.setattr(keras.random, "dropout", lambda x, rate, seed: rates.append(rate) or x)
    AlbertEncoder(config, plain=plain)(random_inputs(config), training=True)
    assert rates == [0.1] + [0.2, 0.1, 0.1] * config.num_hidden_layers


def test_initial_weights(tiny_config):
    config = AlbertConfig.from_dict({**tiny_config.to_dict(), "hidden_size": 96, "intermediate_size": 192})
    for path, weight in weights_of(AlbertEncoder(config, seed=0)).items():
        if path.endswith(("bias", "beta")):
            assert (weight == 0).all()
        elif path.endswith("gamma"):
            assert (weight == 1).all()
        else:
            assert np.abs(weight).max() <= 0.04 + 1e-6, path  # truncated at two standard deviations
            if weight.size > 2000:
                # keras' TruncatedNormal and TensorFlow 1's agree: 0.02 is before truncation, 0.0176 after it
                assert weight.std() == pytest.approx(0.0176, rel=0.05), path


@pytest.mark.slow
@EITHER_WAY
@pytest.mark.parametrize("changes", [{}, VARIANTS["3 groups, 2 inner"]], ids=["all", "groups"])
def test_positions_change_neither_outputs_nor_gradients(tiny_config, changes, plain):
    config = AlbertConfig.from_dict({**tiny_config.to_dict(), **changes})
    encoder, inputs = make_encoder(config, plain=plain), random_inputs(config)
    positions = np.array([[0, 3, 8], [4, 4, 1], [2, 0, 0]], "int32")
    rng = np.random.default_rng(0)
    direction, pooled_direction = rng.normal(size=(3, 3, 24)), rng.normal(size=(3, 24))

    def results(pruned):
        with tf.GradientTape() as tape:
            outputs = encoder(inputs, positions=positions if pruned else None)
            sequence = outputs["sequence_output"]
            if not pruned:
                sequence = tf.gather(sequence, positions, batch_dims=1)
            loss = tf.reduce_sum(sequence * direction) + tf.reduce_sum(
                outputs["pooled_output"] * pooled_direction
            )
        values = [variable.value for variable in encoder.trainable_variables]
        return [sequence, outputs["pooled_output"], *map(tf.convert_to_tensor, tape.gradient(loss, values))]

    for one, other in zip(results(True), results(False), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_positions_and_intermediates_exclude_each_other(tiny_config):
    with pytest.raises(ValueError, match="leave `positions` out"):
        AlbertEncoder(tiny_config)(
            random_inputs(tiny_config), intermediates=True, positions=np.zeros((3, 1), "int32")
        )


def test_kernels_draw_the_masks_of_the_textbook(tiny_config):
    rates = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3}
    config, inputs = AlbertConfig.from_dict({**tiny_config.to_dict(), **rates}), random_inputs(tiny_config)
    encoders = [AlbertEncoder(config, seed=1, plain=plain) for plain in (False, True)]
    for _ in range(2):
        one, other = (encoder(inputs, training=True)["sequence_output"] for encoder in encoders)
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=0)


def test_training_without_dropout_computes_the_same(tiny_config):
    """Training uses other formulas; the outputs must be the same."""
    encoder, inputs = make_encoder(tiny_config), random_inputs(tiny_config)
    evaluating, training = encoder(inputs), encoder(inputs, training=True)
    for name, expected in evaluating.items():
        np.testing.assert_allclose(training[name], expected, atol=1e-5, rtol=0)


@pytest.mark.slow
@EITHER_WAY
def test_bfloat16_gradients_are_near_those_of_float32(tiny_config, plain):
    """Sums over twelve uses of a shared weight stay within the rounding of bfloat16."""
    config = AlbertConfig.from_dict({**tiny_config.to_dict(), "num_hidden_layers": 12})
    inputs, found = random_inputs(config), []
    for policy in ("float32", "mixed_bfloat16"):
        encoder = AlbertEncoder(config, seed=1, dtype=keras.DTypePolicy(policy), plain=plain)
        with tf.GradientTape() as tape:
            output = tf.cast(encoder(inputs, training=True)["sequence_output"], "float32")
            loss = tf.reduce_mean(output * tf.sin(tf.range(24, dtype="float32")))
        values = [variable.value for variable in encoder.trainable_variables]
        gradients = tape.gradient(loss, values, unconnected_gradients="zero")
        assert {gradient.dtype for gradient in gradients} == {tf.float32}
        found.append(
            np.concatenate([tf.convert_to_tensor(gradient).numpy().ravel() for gradient in gradients])
        )
    exact, rounded = found
    cosine = exact @ rounded / (np.linalg.norm(exact) * np.linalg.norm(rounded))
    assert cosine > 0.995
    assert np.linalg.norm(rounded) == pytest.approx(np.linalg.norm(exact), rel=0.05)
