"""Recomputed activations, a loop or a function for equal layers change memory and compile time, but no result."""

from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_cli import cli
from albert_tf.config import AlbertConfig
from albert_tf.kernels.layers import equal_layers
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.keras_model import xla_is_faster
from albert_tf.model.pretrainer import AlbertPretrainer, pretraining_metrics, pretraining_sums
from tests.albert_tf.model.test_pretrainer import pretraining_batch


def with_dropout(config, **changes) -> AlbertConfig:
    rates = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3}
    return AlbertConfig.from_dict({**config.to_dict(), **rates, **changes})


def gradients(config, *, jit_compile: bool = False, steps: int = 2, **model_flags) -> list[np.ndarray]:
    """The gradients of all weights in the second of two steps, which have different dropout masks."""
    model, batch = AlbertPretrainer(config, seed=3, **model_flags), pretraining_batch(config)

    @tf.function(jit_compile=jit_compile)
    def step():
        with tf.GradientTape() as tape:
            loss = pretraining_metrics(pretraining_sums(model(batch, training=True), batch))["loss"]
        values = [variable.value for variable in model.trainable_variables]
        return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, values)]

    for _ in range(steps):
        found = step()
    return [gradient.numpy() for gradient in found]


LEVELS = ("activations", "layers")
GROUPS = {"num_hidden_groups": 2, "inner_group_num": 2}
TWO_LAYERS = {"num_hidden_layers": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "jit_compile"),
    [
        pytest.param({}, False, id="all"),
        pytest.param({"parameter_sharing": "none"}, False, id="none", marks=pytest.mark.very_slow),
        pytest.param(GROUPS, False, id="groups", marks=pytest.mark.very_slow),
        # XLA sees the same operations whichever layers share them, and takes long to compile.
        pytest.param({}, True, id="jit", marks=[pytest.mark.very_slow, pytest.mark.xla]),
    ],
)
def test_remat_keeps_the_gradients_with_dropout(tiny_config, changes, jit_compile):
    config = with_dropout(tiny_config, **TWO_LAYERS, **changes)
    kept = gradients(config, remat=False, jit_compile=jit_compile)
    assert max(np.abs(array).max() for array in kept) > 0.01
    for remat in LEVELS:
        recomputed = gradients(config, remat=remat, jit_compile=jit_compile)
        for one, other in zip(kept, recomputed, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6, rtol=0, err_msg=remat)


@pytest.mark.very_slow
@pytest.mark.parametrize("remat", LEVELS)
def test_remat_keeps_the_gradients_in_bfloat16(tiny_config, remat):
    """The backward pass computes in bfloat16, too, outside the calls in which Keras casts."""
    config = with_dropout(tiny_config, **TWO_LAYERS)
    kept, recomputed = (gradients(config, dtype="mixed_bfloat16", remat=level) for level in (False, remat))
    scale = max(np.abs(array).max() for array in kept)
    for one, other in zip(kept, recomputed, strict=True):
        np.testing.assert_allclose(one, other, atol=0.01 * scale, rtol=0)


@pytest.mark.very_slow
@pytest.mark.parametrize("remat", LEVELS[:1])
def test_masks_differ_between_steps(tiny_config, remat):
    """Otherwise the tests above would pass with wrong masks."""
    config = with_dropout(tiny_config, **TWO_LAYERS)
    one, two = (gradients(config, remat=remat, steps=steps)[0] for steps in (1, 2))
    assert np.abs(one - two).max() > 1e-3


def test_no_two_dropouts_share_a_seed(tiny_config, monkeypatch):
    config = with_dropout(tiny_config, inner_group_num=2)
    encoder, drawn = AlbertEncoder(config, seed=1), []

    def dropout(x, rate, seed):
        drawn.append(tuple(np.asarray(seed.next())))
        return x

    monkeypatch.setattr(keras.random, "dropout", dropout)
    for _ in range(2):
        encoder({"input_ids": np.zeros((1, 3), "int32")}, training=True)
    assert len(set(drawn)) == len(drawn) == 2 * (1 + 4 * 2 * 3)


@pytest.mark.parametrize("kind", [AlbertPretrainer, AlbertEncoder])
def test_levels(tiny_config, kind):
    assert kind(tiny_config, remat=True).get_config()["remat"] == "layers"
    assert kind(tiny_config, remat=False).get_config()["remat"] is False
    with pytest.raises(ValueError, match="must be a bool, 'activations' or 'layers'. Received 'attention'"):
        kind(tiny_config, remat="attention")


@pytest.mark.very_slow
def test_what_each_level_recomputes(tiny_config):
    config, L = with_dropout(tiny_config, num_hidden_layers=3), 3

    def count(remat) -> Counter:
        model, batch = AlbertPretrainer(config, remat=remat), pretraining_batch(config)

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                outputs = model.encoder(batch, training=True)["sequence_output"]
            return tape.gradient(outputs, [variable.value for variable in model.encoder.trainable_variables])

        return Counter(operation.type for operation in step.get_concrete_function().graph.get_operations())

    kept, activations, layers = map(count, (False, *LEVELS))
    for one in ("Softmax", "Tanh"):
        assert activations[one] == layers[one] == kept[one] + L
    # TensorFlow and XLA drop recomputed products whose results are not used.
    products = [
        operations["BatchMatMulV2"] + operations["MatMul"] for operations in (kept, activations, layers)
    ]
    assert products == [products[0], products[0] + 3 * L, products[0] + 8 * L]


@pytest.mark.slow
def test_inference_recomputes_nothing(tiny_config):
    def operations(remat) -> list[str]:
        encoder = AlbertEncoder(tiny_config, remat=remat)
        function = tf.function(lambda ids: encoder({"input_ids": ids})["sequence_output"])
        graph = function.get_concrete_function(tf.TensorSpec((2, 8), tf.int32)).graph
        return [operation.type for operation in graph.get_operations()]

    assert operations("activations") == operations(False)


@pytest.mark.parametrize(
    ("flags", "remat"),
    [
        ([], False),
        (["--remat"], True),
        (["--noremat"], False),
        (["--remat=true"], True),
        (["--remat=layers"], "layers"),
        (["--remat=activations"], "activations"),
        (["--remat", "--do_eval", "--eval_file=y"], True),
    ],
)
def test_the_remat_flag(monkeypatch, flags, remat):
    received = []
    monkeypatch.setattr("albert_tf.pretraining.pretrain.pretrain", received.append)
    needed = ["--input_file=x", "--albert_config_file=x", "--output_dir=x", "--do_train"]
    assert cli.main(["pretrain", *needed, *flags]) == 0
    assert [settings.remat for settings in received] == [remat]


def test_unknown_values_of_the_flag_are_refused(capfd):
    needed = ["--input_file=x", "--albert_config_file=x", "--output_dir=x", "--do_train"]
    assert cli.main(["pretrain", *needed, "--remat=attention"]) == 2
    assert 'Choose from: "activations", "layers"' in capfd.readouterr().err


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("changes", "levels", "jit_compile"),
    [
        pytest.param({}, (False, *LEVELS), False, id="all"),
        pytest.param(GROUPS, (False,), False, id="groups"),
        # XLA takes long to compile; of three layers, the first two are the loop.
        pytest.param({"num_hidden_layers": 3}, LEVELS, True, id="jit", marks=pytest.mark.xla),
    ],
)
def test_a_loop_keeps_the_gradients_with_dropout(tiny_config, changes, levels, jit_compile):
    config = with_dropout(tiny_config, **{"num_hidden_layers": 5, **changes})
    one_by_one = gradients(config, jit_compile=jit_compile)
    assert max(np.abs(array).max() for array in one_by_one) > 0.01
    for remat in levels:
        looped = gradients(config, jit_compile=jit_compile, scan_layers=True, remat=remat)
        for one, other in zip(one_by_one, looped, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6, rtol=0, err_msg=str(remat))


def test_xla_is_not_for_cpus(monkeypatch):
    monkeypatch.setattr(keras.distribution, "list_devices", {"gpu": [], "tpu": []}.get)
    assert not xla_is_faster()
    monkeypatch.setattr(keras.distribution, "list_devices", {"gpu": ["gpu:0"], "tpu": []}.get)
    assert xla_is_faster()


@pytest.mark.slow
def test_only_equal_layers_form_a_loop(tiny_config):
    def ranges(**changes):
        config = with_dropout(tiny_config, num_hidden_layers=6, **changes)
        encoder = AlbertEncoder(config)
        return equal_layers([encoder.blocks(layer) for layer in range(6)])

    assert ranges() == [range(5), range(5, 6)]
    assert ranges(num_hidden_groups=2) == [range(3), range(3, 5), range(5, 6)]
    each = [range(layer, layer + 1) for layer in range(6)]
    assert ranges(parameter_sharing="none") == each
    assert ranges(parameter_sharing="ffn") == each


@pytest.mark.very_slow
def test_the_graph_does_not_grow_with_the_layers(tiny_config):
    def operations(layers, **flags):
        encoder = AlbertEncoder(with_dropout(tiny_config, num_hidden_layers=layers), **flags)
        function = tf.function(lambda ids: encoder({"input_ids": ids}, training=True)["pooled_output"])
        graph = function.get_concrete_function(tf.TensorSpec((2, 8), tf.int32)).graph
        bodies = [
            node for name in graph._functions for node in graph._get_function(name).graph.as_graph_def().node
        ]
        return len(graph.get_operations()) + len(bodies)

    assert operations(12) > operations(4) + 100
    assert operations(12, scan_layers=True) == operations(4, scan_layers=True)


@pytest.mark.parametrize("wanted", ["all", "intermediates"])
def test_a_loop_keeps_the_outputs(tiny_config, wanted):
    config = with_dropout(tiny_config, num_hidden_layers=5)
    ids = np.arange(12).reshape(2, 6) % config.vocab_size
    flags = {"intermediates": True} if wanted == "intermediates" else {}
    expected = AlbertEncoder(config, seed=1)({"input_ids": ids}, **flags)
    found = AlbertEncoder(config, seed=1, scan_layers=True)({"input_ids": ids}, **flags)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), expected, found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "functions"),
    [
        pytest.param({}, 1, id="all"),
        pytest.param({"num_hidden_groups": 2, "inner_group_num": 2}, 2, id="two groups"),
        pytest.param({"parameter_sharing": "attention"}, 4, id="attention"),
        pytest.param({"parameter_sharing": "ffn"}, 4, id="ffn"),
        pytest.param({"parameter_sharing": "none"}, 4, id="none"),
    ],
)
def test_equal_layers_call_one_function(tiny_config, changes, functions):
    """And only layers that share everything do: the outputs stay the same."""
    # Large weights, so that different layers compute different things.
    four_layers = {"num_hidden_layers": 4, "initializer_range": 0.3}
    config = AlbertConfig.from_dict({**tiny_config.to_dict(), **four_layers, **changes})
    encoder = AlbertEncoder(config, seed=1)
    inputs = {"input_ids": np.arange(5, 12)[np.newaxis]}
    made = []

    def maker(layer, variables):
        made.append(variables)
        return lambda x: layer(x, *(variable.value for variable in variables))

    expected = encoder(inputs)["sequence_output"]
    encoder.kernels.make_layer_function = maker
    found = encoder(inputs)["sequence_output"]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert len(made) == functions
