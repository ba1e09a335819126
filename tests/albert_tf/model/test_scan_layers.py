"""A loop over shared layers is the same mathematics as the layers one by one."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.execution import equal_stretches
from albert_tf.model.pretrainer import AlbertPretrainer
from tests.albert_tf.model.test_remat import gradients, with_dropout

GROUPS = {"num_hidden_groups": 2, "inner_group_num": 2}


@pytest.mark.parametrize(
    ("changes", "remat", "jit_compile"),
    [
        pytest.param({}, False, False, id="all"),
        pytest.param({}, "layers", False, id="all-layers"),
        pytest.param({}, "activations", False, id="all-activations"),
        pytest.param(GROUPS, False, False, id="groups"),
        pytest.param({}, "layers", True, id="all-layers-jit", marks=[pytest.mark.slow, pytest.mark.xla]),
        pytest.param(
            {}, "activations", True, id="all-activations-jit", marks=[pytest.mark.slow, pytest.mark.xla]
        ),
    ],
)
def test_gradients_with_dropout_are_the_same(tiny_config, changes, remat, jit_compile):
    config = with_dropout(tiny_config, num_hidden_layers=5, **changes)
    one_by_one = gradients(config, jit_compile=jit_compile)
    looped = gradients(config, jit_compile=jit_compile, scan_layers=True, remat=remat)
    assert max(np.abs(array).max() for array in one_by_one) > 0.01
    for one, other in zip(one_by_one, looped, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)


def test_only_equal_layers_are_looped_over(tiny_config):
    def stretches(**changes):
        config = with_dropout(tiny_config, num_hidden_layers=6, **changes)
        encoder = AlbertEncoder(config)
        return equal_stretches([encoder.blocks(layer) for layer in range(6)])

    assert stretches() == [range(5), range(5, 6)]
    assert stretches(num_hidden_groups=2) == [range(3), range(3, 5), range(5, 6)]
    each = [range(layer, layer + 1) for layer in range(6)]
    assert stretches(parameter_sharing="none") == each
    assert stretches(parameter_sharing="ffn") == each


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


@pytest.mark.parametrize("asked", ["all", "intermediates"])
def test_outputs_are_the_same(tiny_config, asked):
    config = with_dropout(tiny_config, num_hidden_layers=5)
    ids = np.arange(12).reshape(2, 6) % config.vocab_size
    flags = {"intermediates": True} if asked == "intermediates" else {}
    expected = AlbertEncoder(config, seed=1)({"input_ids": ids}, **flags)
    found = AlbertEncoder(config, seed=1, scan_layers=True)({"input_ids": ids}, **flags)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), expected, found)


def test_it_is_kept_in_the_configuration(tiny_config):
    model = AlbertPretrainer(tiny_config, scan_layers=True)
    again = AlbertPretrainer.from_config(model.get_config())
    assert again.encoder.scan_layers and not AlbertPretrainer(tiny_config).encoder.scan_layers
