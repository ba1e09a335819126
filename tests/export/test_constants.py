"""bfloat16 SavedModels, whose layers have constants for weights."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.checkpoints.stored import StoredModel
from albert_tf.checkpoints.tf1 import write_tf1
from albert_tf.runtime.pretrained import load_pretrained
from export.write import export_model
from tests.albert_tf.checkpoints.random_models import CONFIGS, random_weights
from tests.export.conftest import CONFIG
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
@pytest.mark.parametrize("kind", ["encoder", "fill-mask"])
def test_each_weight_is_stored_once_in_each_function_of_layers(source, tmp_path, kind):
    export_model(source, tmp_path / "saved", kind, "bfloat16")
    found = constants(tmp_path / "saved")
    assert len(set(found)) == len(found)
    functions = {function for function, _ in found}
    assert {name for _, name in found} == CONSTANTS
    assert len(found) == len(functions) * len(CONSTANTS)
    loaded = tf.saved_model.load(tmp_path / "saved")
    assert not loaded.trainable_variables
    assert not any(
        "kernel" in variable.name and "attention" in variable.name for variable in loaded.variables
    )


@pytest.mark.very_slow
@pytest.mark.parametrize("config", CONFIGS)
def test_computes_what_the_model_computes_in_bfloat16(tmp_path, config):
    """For every shape of the encoder that the original has."""
    (tmp_path / "source").mkdir()
    # Large weights, so that layers differ by more than rounding.
    stored = StoredModel("run", Path("nowhere"), CONFIGS[config], random_weights(CONFIGS[config], scale=0.3))
    write_tf1(stored, tmp_path / "source")
    export_model(tmp_path / "source", tmp_path / "saved", "encoder", "bfloat16")
    exact = load_pretrained(tmp_path / "source").encoder
    ids = np.random.default_rng(0).integers(5, CONFIGS[config].vocab_size, (3, 7), "int32")
    signature = tf.saved_model.load(tmp_path / "saved").signatures["tokens"]
    found = signature(
        input_ids=tf.constant(ids), input_mask=tf.ones_like(ids), segment_ids=tf.zeros_like(ids)
    )
    expected = np.asarray(exact({"input_ids": ids})["sequence_output"])
    difference = np.abs(found["sequence_output"].numpy() - expected)
    assert np.mean(difference) < 0.05 * np.mean(np.abs(expected))


@pytest.mark.very_slow
@pytest.mark.parametrize(("dtype", "keep_padding"), [("float32", False), ("bfloat16", True)])
def test_other_exports_have_variables(source, tmp_path, dtype, keep_padding):
    export_model(source, tmp_path / "saved", "encoder", dtype, keep_padding)
    assert not constants(tmp_path / "saved")
    variables = tf.saved_model.load(tmp_path / "saved").variables
    assert any("kernel" in variable.name and "attention" in variable.name for variable in variables)


@pytest.mark.very_slow
def test_layer_norm_is_one_kernel(source, tmp_path):
    """As oneDNN's log has it; that of the embeddings, which has variables, is not."""
    export_model(source, tmp_path / "saved", "encoder", "bfloat16")
    program = """if True:
        import sys, tensorflow as tf
        ids = tf.ones((2, 8), tf.int32)
        tf.saved_model.load(sys.argv[1]).signatures["tokens"](input_ids=ids, input_mask=ids, segment_ids=ids * 0)
    """
    kernels = onednn_kernels(program, str(tmp_path / "saved"))
    assert sum(",layer_normalization," in kernel for kernel in kernels) == 2 * CONFIG.num_hidden_layers
