"""Changes to ONNX graphs that need no model."""

import numpy as np
import pytest

from export import onnx_graph

onnx = pytest.importorskip("onnx", reason="an extra: pip install '.[onnx]'")


def test_only_transposed_matrices_are_shared(monkeypatch):
    """And only they are compared in full, which takes long if there are hundreds of matrices."""
    words = np.random.default_rng(0).random((40, 30), "float32")
    almost = words.T.copy()
    almost[-1, -1] += 1
    arrays = {
        "words": words,
        "output": words.T.copy(),
        "almost": almost,
        "other": np.random.default_rng(1).random((30, 40), "float32"),
    }
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = onnx.GraphProto(name="graph", initializer=tensors)
    compared, equal = [], np.array_equal
    monkeypatch.setattr(onnx_graph.np, "array_equal", lambda a, b: compared.append(a.shape) or equal(a, b))
    onnx_graph.share_transposed(graph)
    monkeypatch.undo()
    assert [tensor.name for tensor in graph.initializer] == ["output", "almost", "other"]
    assert [(*node.input, *node.output) for node in graph.node] == [("output", "words")]
    assert sum(len(shape) == 2 for shape in compared) == 1
