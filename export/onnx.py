"""A model as one ONNX file, for ONNX Runtime, OpenVINO and others.

model --trace, freeze--> graph of TensorFlow --tf2onnx--> graph of ONNX --shared once, quantized--> model.onnx
"""

import contextlib
import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from albert_tf.runtime.engine_flags import EngineSettings
from albert_tf.runtime.engines import open_engine
from albert_tf.runtime.portable_folder import ONNX_FILE
from albert_tf.tasks.hub_names import MASKED_POSITIONS, TEXT_INPUTS
from albert_tf.tasks.runner import FunctionRunner, Runner
from export.onnx_graph import (
    allow_empty,
    fuse_layer_norms,
    name_dimensions,
    share_transposed,
    store_as_float16,
    transpose_matrices,
)
from export.portable import Portable, Runtime

_EXAMPLE = """
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
ids = np.array({ids}, "int32")
inputs = {{"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": {types}}}
if len(session.get_inputs()) > 3:  # for mlm_logits
    inputs["masked_lm_positions"] = np.array([[2]], "int32")
print(session.run(["{output}"], inputs)[0].shape)
"""
_OPSET = 18
_CALIBRATION = 40  # batches


def write_onnx(
    portable: Portable, quantize: str, folder: Path, batches: Sequence[dict[str, np.ndarray]] = ()
) -> Runner:
    """Writes model.onnx, which stores every weight that layers share once.

    Its inputs are those of the TF2 hub encoder, int32, and with a masked-LM head `masked_lm_positions` (B, P); P
    may be 0. "int8-static" is calibrated on the first of `batches`.
    """
    import onnx
    import tf2onnx

    function = portable.whole
    proto, _ = tf2onnx.convert.from_function(
        function,
        function.input_signature,
        opset=_OPSET,
        custom_op_handlers={"Erfc": (_erfc, []), "SelectV2": (_select, [])},
    )
    fuse_layer_norms(proto.graph)
    if quantize == "int8":
        proto = _int8(proto)
    elif quantize != "int8-static":  # NNCF needs all weights as initializers
        share_transposed(proto.graph)
        transpose_matrices(proto.graph)
    if quantize == "float16":
        store_as_float16(proto.graph)
    allow_empty(proto.graph)
    name_dimensions(proto.graph, portable.all_dimensions)
    onnx.checker.check_model(proto, full_check=True)
    if quantize == "int8-static":
        proto = _int8_static(proto, batches)
    onnx.save(proto, str(folder / ONNX_FILE))
    if quantize == "int8-static":
        return open_engine(folder / ONNX_FILE, EngineSettings("openvino"))
    return onnx_runner(folder / ONNX_FILE)


def onnx_runner(file: Path) -> Runner:
    """Runs a file that `write_onnx` wrote, on CPUs."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    takes_positions = MASKED_POSITIONS in [value.name for value in session.get_inputs()]

    def run(inputs):
        if takes_positions and MASKED_POSITIONS not in inputs:
            inputs = {**inputs, MASKED_POSITIONS: np.zeros((len(inputs[TEXT_INPUTS[0]]), 0), np.int32)}
        return dict(zip(names, session.run(names, inputs), strict=True))

    return FunctionRunner(run)


def _erfc(context, node, name, _) -> None:
    """Converts erfc, which the exact gelu uses, to 1 - erf(x), since ONNX has only erf."""
    one = context.make_const(f"{name}_one", np.ones((), np.float32)).output[0]
    erf = context.make_node("Erf", node.input).output[0]
    context.remove_node(name)
    context.make_node("Sub", [one, erf], name=name, outputs=node.output)


def _select(context, node, name, _) -> None:
    """Converts a choice, and removes that of `keras.ops.take`: where(indices < 0, indices + size, indices).

    Gather itself counts negative indices from the end. For few rows the choice would take longer than Gather.
    """
    condition, chosen, _ = node.inputs
    inputs, (output,) = list(node.input), node.output
    is_sum = chosen.type.startswith("Add") and chosen.input[0] == inputs[2]
    readers = context.find_output_consumers(output)
    is_index = all(reader.type.startswith("Gather") for reader in readers)
    context.remove_node(name)
    if condition.type == "Less" and is_sum and is_index:
        context.replace_all_inputs(output, inputs[2])
    else:
        context.make_node("Where", inputs, name=name, outputs=[output])


def _int8(proto):
    """The graph with matrices and word embeddings in 8 bits, with a scale for each column."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        before, after = f"{folder}/float32.onnx", f"{folder}/int8.onnx"
        onnx.save(proto, before)
        with _without_warnings():  # the warnings advise steps that do not apply here
            # Unsigned: the signed form saturates on x86 processors without VNNI.
            quantize_dynamic(before, after, weight_type=QuantType.QUInt8, per_channel=True)
        return onnx.load(after)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Within this context, no logger of Python reports warnings."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _int8_static(proto, batches: Sequence[dict[str, np.ndarray]]):
    """The graph with weights and activations in 8 bits, whose ranges are those of the batches."""
    import nncf

    names = [value.name for value in proto.graph.input]
    chosen = [{name: batch[name] for name in names} for batch in batches[:_CALIBRATION]]
    return nncf.quantize(
        proto,
        nncf.Dataset(chosen),
        model_type=nncf.ModelType.TRANSFORMER,  # products only; activations with outliers are smoothed
        subset_size=len(chosen),
    )


ONNX = Runtime("ONNX Runtime", ONNX_FILE, _EXAMPLE, ("onnx", "onnxruntime", "tf2onnx"), "onnx", write_onnx)
