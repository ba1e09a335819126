"""bfloat16 SavedModels, whose layers have constants for weights."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.runtime.pretrained import load_pretrained
from export.write import export_model
from tests.albert_tf.checkpoints.random_models import CONFIGS, random_weights
from tests.export.conftest import CONFIG, write_model
from tests.onednn import onednn_kernels

CONSTANTS = {
    *(f"attention_0_0/{name}/kernel" for name in ("query", "key", "value", "output")),
    *(f"ffn_0_0/{name}/kernel" for name in ("intermediate", "output")),
    *(f"{part}/layer_norm/{name}" for part in ("attention_0_0", "ffn_0_0") for name in ("gamma", "beta")),
}


def constants(folder) -> list[tuple[str, str]]:
    """Function and name of each constant that holds a weight."""
    saved_model = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    return [
        (function.signature.name, node.name.removeprefix("albert_weights/"))
        for function in saved_model.meta_graphs[0].graph_def.library.function
        for node in function.node_def
        if node.op == "Const" and node.name.startswith("albert_weights/")
    ]


@pytest.mark.very_slow
@pytest.mark.parametrize(("kind", "options"), [("encoder", {}), ("fill-mask", {"top_k": 3})])
def test_each_weight_is_stored_once_in_each_function_of_layers(exported, kind, options):
    folder = exported(kind, "bfloat16", **options)
    found = constants(folder)
    assert len(set(found)) == len(found)
    functions = {function for function, _ in found}
    assert {name for _, name in found} == CONSTANTS
    assert len(found) == len(functions) * len(CONSTANTS)
    loaded = tf.saved_model.load(folder)
    assert not loaded.trainable_variables
    assert not any("kernel" in each.name and "attention" in each.name for each in loaded.variables)


@pytest.mark.very_slow
@pytest.mark.parametrize("config", CONFIGS)
def test_computes_what_the_model_computes_in_bfloat16(tmp_path, config):
    """For every shape of the encoder that the original has."""
    # Large weights, so that layers differ by more than rounding.
    weights = random_weights(CONFIGS[config], scale=0.3)
    source = write_model(tmp_path / "source", CONFIGS[config], weights)
    export_model(source, tmp_path / "saved", "encoder", "bfloat16")
    ids = np.random.default_rng(0).integers(5, CONFIGS[config].vocab_size, (3, 7), "int32")
    signature = tf.saved_model.load(tmp_path / "saved").signatures["tokens"]
    found = signature(
        input_ids=tf.constant(ids), input_mask=tf.ones_like(ids), segment_ids=tf.zeros_like(ids)
    )
    expected = np.asarray(load_pretrained(source).encoder({"input_ids": ids})["sequence_output"])
    difference = np.abs(found["sequence_output"].numpy() - expected)
    assert np.mean(difference) < 0.05 * np.mean(np.abs(expected))


@pytest.mark.very_slow
@pytest.mark.parametrize(("dtype", "options"), [("float32", {}), ("bfloat16", {"keep_padding": True})])
def test_other_exports_have_variables(exported, dtype, options):
    folder = exported("encoder", dtype, **options)
    assert not constants(folder)
    variables = tf.saved_model.load(folder).variables
    assert any("kernel" in variable.name and "attention" in variable.name for variable in variables)


@pytest.mark.very_slow
def test_layer_norm_is_one_kernel(exported):
    """As oneDNN's log has it; that of the embeddings, which has variables, is not."""
    program = """if True:
        import sys, tensorflow as tf
        ids = tf.ones((2, 8), tf.int32)
        tf.saved_model.load(sys.argv[1]).signatures["tokens"](input_ids=ids, input_mask=ids, segment_ids=ids * 0)
    """
    kernels = onednn_kernels(program, str(exported("encoder", "bfloat16")))
    assert sum(",layer_normalization," in kernel for kernel in kernels) == 2 * CONFIG.num_hidden_layers
