"""Changes to a converted ONNX graph that make it smaller or faster; each changes a `GraphProto` in place."""

from collections.abc import Mapping

import numpy as np

_LARGE = 1024  # elements; smaller arrays are not worth a node
_DIMENSIONS = {"B": "batch_size", "T": "sequence_length", "P": "predictions", "C": "choices"}


def fuse_layer_norms(graph) -> None:
    """Replaces LayerNorm as in textbooks, (x - mean) / sqrt(variance + epsilon) * gamma + beta, by one node.

    A LayerNorm whose gamma is 1 or beta 0, as in untrained models, stays as it is: the converter has removed
    these.
    """
    import onnx

    stored = {tensor.name: tensor for tensor in graph.initializer}
    made_by = {name: node for node in graph.node for name in node.output}
    readers = _readers(graph)

    def operands(node) -> tuple[str, str]:
        """A node's inputs: the output of another node first, then the weight or constant."""
        first, second = node.input
        return (first, second) if second in stored else (second, first)

    def only_reader(node, kind: str):
        """The only reader of a node's output, if it is of this kind and has a weight; otherwise None."""
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


def share_transposed(graph) -> None:
    """Replaces a weight by a node if it is another one transposed: the masked-LM head's word embeddings."""
    import onnx

    large = {tensor.name: tensor for tensor in graph.initializer if np.prod(tensor.dims) >= _LARGE}
    arrays = {name: onnx.numpy_helper.to_array(tensor) for name, tensor in large.items()}
    for name, array in list(arrays.items()):
        for other, source in arrays.items():
            if other != name and array.ndim == 2 and _is_transposed(array, source):
                graph.initializer.remove(large[name])
                graph.node.insert(0, onnx.helper.make_node("Transpose", [other], [name], perm=[1, 0]))
                del arrays[name]
                break


def _is_transposed(matrix: np.ndarray, other: np.ndarray) -> bool:
    """Whether one is the other transposed; most pairs differ in the first row, and NumPy does not stop there."""
    has_shape = matrix.T.shape == other.shape
    return has_shape and np.array_equal(matrix[:, 0], other[0]) and np.array_equal(matrix.T, other)


def transpose_matrices(graph) -> None:
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


def store_as_float16(graph) -> None:
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


def allow_empty(graph) -> None:
    """Makes zero positions give zero logits: by default a computed size of 0 means the size of the input."""
    import onnx

    constant = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Reshape" and node.input[1] not in constant:
            node.attribute.append(onnx.helper.make_attribute("allowzero", 1))


def name_dimensions(graph, dimensions: Mapping[str, str]) -> None:
    """Names the dimensions of inputs and outputs, which have only numbers.

    Args:
      graph: the graph.
      dimensions: of each input and output, such as "B, T".
    """
    for value in (*graph.input, *graph.output):
        sizes = value.type.tensor_type.shape.dim
        for size, letter in zip(sizes, dimensions[value.name].split(", "), strict=True):
            if not size.HasField("dim_value"):
                size.dim_param = _DIMENSIONS.get(letter, letter)
