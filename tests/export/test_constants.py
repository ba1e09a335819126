"""bfloat16 SavedModels, whose layers have constants for weights."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from export.run import export_model
from tests.export.conftest import CONFIG

CONSTANTS = {
    *(f"attention_0_0/{name}/kernel" for name in ("query", "key", "value", "output")),
    *(f"ffn_0_0/{name}/kernel" for name in ("intermediate", "output")),
    *(f"{part}/layer_norm/{name}" for part in ("attention_0_0", "ffn_0_0") for name in ("gamma", "beta")),
}


def constants(folder) -> list[tuple[str, int]]:
    """Function and name of each constant that holds a weight."""
    saved_model = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    return [
        (function.signature.name, node.name.removeprefix("albert_weights/"))
        for function in saved_model.meta_graphs[0].graph_def.library.function
        for node in function.node_def
        if node.op == "Const" and node.name.startswith("albert_weights/")
    ]


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "keep_padding"), [("float32", False), ("bfloat16", True)])
def test_other_exports_have_variables(source, tmp_path, dtype, keep_padding):
    export_model(source, tmp_path / "saved", "encoder", dtype, keep_padding)
    assert not constants(tmp_path / "saved")
    variables = tf.saved_model.load(tmp_path / "saved").variables
    assert any("kernel" in variable.name and "attention" in variable.name for variable in variables)


@pytest.mark.slow
def test_layer_norm_is_one_kernel(source, tmp_path):
    """As oneDNN's log has it; that of the embeddings, which has variables, is not."""
    export_model(source, tmp_path / "saved", "encoder", "bfloat16")
    program = """if True:
        import sys, tensorflow as tf
        ids = tf.ones((2, 8), tf.int32)
        tf.saved_model.load(sys.argv[1]).signatures["tokens"](input_ids=ids, input_mask=ids, segment_ids=ids * 0)
    """
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "saved")],
        capture_output=True,
        text=True,
        env=os.environ | {"ONEDNN_VERBOSE": "1"},
        check=True,
    )
    kernels = [
        line for line in run.stdout.splitlines() if line.startswith("onednn_verbose") and "exec" in line
    ]
    if not kernels:
        pytest.skip("TensorFlow does not use oneDNN on this processor")
    assert sum(",layer_normalization," in kernel for kernel in kernels) == 2 * CONFIG.num_hidden_layers
