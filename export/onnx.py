"""A model as one ONNX file, for ONNX Runtime, OpenVINO and others.

model --trace, freeze--> graph of TensorFlow --tf2onnx--> graph of ONNX --shared once, quantized--> model.onnx
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from albert_tf.model.formulas import layer_norm_as_in_textbooks
from albert_tf.portable.engines import open_engine
from albert_tf.portable.folder import ONNX_FILE
from albert_tf.portable.inputs import MASKED_POSITIONS, TEXT_INPUTS
from albert_tf.portable.settings import EngineSettings
from export.portable import Portable, Runner, Runtime

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
_LARGE = 1024  # elements; smaller arrays are not worth a node


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
    with layer_norm_as_in_textbooks():
        proto, _ = tf2onnx.convert.from_function(
            function,
            function.input_signature,
            opset=_OPSET,
            custom_op_handlers={"Erfc": (_erfc, []), "SelectV2": (_select, [])},
        )
    _fuse_layer_norms(proto.graph)
    if quantize == "int8":
        proto = _int8(proto)
    elif quantize != "int8-static":  # NNCF takes no weight that is a node
        _share_transposed(proto.graph)
        _transpose_matrices(proto.graph)
    if quantize == "float16":
        _store_as_float16(proto.graph)
    _allow_empty(proto.graph)
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

    return run


def _erfc(context, node, name, _) -> None:
    """Converts erfc, which the exact gelu uses, to 1 - erf(x), since ONNX has only erf."""
    one = context.make_const(f"{name}_one", np.ones((), np.float32)).output[0]
    erf = context.make_node("Erf", node.input).output[0]
    context.remove_node(name)
    context.make_node("Sub", [one, erf], name=name, outputs=node.output)


def _select(context, node, name, _) -> None:
    """Converts a choice, and leaves out that of `keras.ops.take`: where(indices < 0, indices + size, indices).

    Gather itself counts negative indices from the end. Where rows are few, the choice takes longer than they do.
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


def _fuse_layer_norms(graph) -> None:
    """Replaces LayerNorm as in textbooks, (x - mean) / sqrt(variance + epsilon) * gamma + beta, by one node.

    A LayerNorm whose gamma is 1 or beta 0, as in models that are not trained, stays as it is: the converter has
    left these out.
    """
    import onnx

    stored = {tensor.name: tensor for tensor in graph.initializer}
    made_by = {name: node for node in graph.node for name in node.output}
    readers = _readers(graph)

    def operands(node) -> tuple[str, str]:
        """A node's inputs: what another node makes, then the weight or constant."""
        first, second = node.input
        return (first, second) if second in stored else (second, first)

    def only_reader(node, kind: str):
        """The node of this kind, with a weight, that alone reads a node's output; None if there is none."""
        reader, *others = readers.get(node.output[0], [None])
        fits = reader is not None and not others and reader.op_type == kind and operands(reader)[1] in stored
        return reader if fits else None

    for quotient in [node for node in graph.node if node.op_type == "Div"]:
        centred, root = (made_by.get(name) for name in quotient.input)
        scaled = only_reader(quotient, "Mul")
        shifted = only_reader(scaled, "Add") if scaled else None
        if not (centred and root and shifted) or (centred.op_type, root.op_type) != ("Sub", "Sqrt"):
            continue
        stable = made_by[root.input[0]]
        variance, epsilon = operands(stable)
        mean, squares = made_by[centred.input[1]], made_by[made_by[variance].input[0]]
        for node in (mean, centred, squares, made_by[variance], stable, root, quotient, scaled):
            graph.node.remove(node)
        inputs = [centred.input[0], operands(scaled)[1], operands(shifted)[1]]
        options = {"axis": -1, "epsilon": onnx.numpy_helper.to_array(stored[epsilon]).item()}
        outputs, name = list(shifted.output), shifted.name
        shifted.CopyFrom(onnx.helper.make_node("LayerNormalization", inputs, outputs, name=name, **options))
    _remove_unread(graph)


def _readers(graph) -> dict[str, list]:
    """The nodes that read each array."""
    readers: dict[str, list] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    return readers


def _remove_unread(graph) -> None:
    """Removes weights and constants that no node reads."""
    readers = _readers(graph)
    for tensor in [tensor for tensor in graph.initializer if tensor.name not in readers]:
        graph.initializer.remove(tensor)


def _share_transposed(graph) -> None:
    """Replaces a weight by a node if it is another one transposed: the masked-LM head's word embeddings."""
    import onnx

    large = {tensor.name: tensor for tensor in graph.initializer if np.prod(tensor.dims) >= _LARGE}
    arrays = {name: onnx.numpy_helper.to_array(tensor) for name, tensor in large.items()}
    for name, array in list(arrays.items()):
        for other, source in arrays.items():
            if other != name and array.ndim == 2 and np.array_equal(array.T, source):
                graph.initializer.remove(large[name])
                graph.node.insert(0, onnx.helper.make_node("Transpose", [other], [name], perm=[1, 0]))
                del arrays[name]
                break


def _transpose_matrices(graph) -> None:
    """Products with a matrix and a bias become Gemm nodes with the matrix transposed, (outputs, inputs).

    OpenVINO's kernels expect this layout. It would transpose a matrix for every product with it, and layers that
    share the matrix would each read a copy of their own.
    """
    import onnx

    stored = {tensor.name: tensor for tensor in graph.initializer}
    rank = {name: len(tensor.dims) for name, tensor in stored.items()}
    readers = _readers(graph)
    transposed: dict[str, str] = {}
    for product in [node for node in graph.node if node.op_type == "MatMul" and rank.get(node.input[1]) == 2]:
        (x, matrix), (sum_node, *others) = product.input, readers.get(product.output[0], [None])
        biases = [name for name in sum_node.input if rank.get(name) == 1] if sum_node else []
        if others or not biases or sum_node.op_type != "Add":
            continue
        if matrix not in transposed:
            transposed[matrix] = f"{matrix}_transposed"
            array = np.ascontiguousarray(onnx.numpy_helper.to_array(stored[matrix]).T)
            graph.initializer.append(onnx.numpy_helper.from_array(array, transposed[matrix]))
        inputs, outputs = [x, transposed[matrix], *biases], list(sum_node.output)
        graph.node.remove(sum_node)
        product.CopyFrom(onnx.helper.make_node("Gemm", inputs, outputs, name=product.name, transB=1))
    _remove_unread(graph)


def _store_as_float16(graph) -> None:
    """Stores large float32 weights in float16; a runtime casts them back once, when it loads the file."""
    import onnx

    for tensor in list(graph.initializer):
        if tensor.data_type == onnx.TensorProto.FLOAT and np.prod(tensor.dims) >= _LARGE:
            half = onnx.numpy_helper.to_array(tensor).astype(np.float16)
            stored = f"{tensor.name}_float16"
            cast = onnx.helper.make_node("Cast", [stored], [tensor.name], to=onnx.TensorProto.FLOAT)
            graph.initializer.remove(tensor)
            graph.initializer.append(onnx.numpy_helper.from_array(half, stored))
            graph.node.insert(0, cast)


def _int8(proto):
    """The graph with matrices and word embeddings in 8 bits, with a scale for each column."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        before, after = f"{folder}/float32.onnx", f"{folder}/int8.onnx"
        onnx.save(proto, before)
        # Unsigned: the signed form saturates on x86 processors without VNNI.
        quantize_dynamic(before, after, weight_type=QuantType.QUInt8, per_channel=True)
        return onnx.load(after)


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


def _allow_empty(graph) -> None:
    """Makes zero positions give zero logits: by default a computed size of 0 means the size of the input."""
    import onnx

    constant = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Reshape" and node.input[1] not in constant:
            node.attribute.append(onnx.helper.make_attribute("allowzero", 1))


ONNX = Runtime("ONNX Runtime", ONNX_FILE, _EXAMPLE, ("onnx", "onnxruntime", "tf2onnx"), "onnx", write_onnx)
