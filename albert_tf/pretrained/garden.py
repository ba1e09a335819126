"""Model Garden's SavedModels on TF-Hub (TF2 text encoders): variables and shape are read, nothing is run.

They have no configuration file. The sizes follow from the arrays, the number of heads included; the number of
layers from the signature, which lists every layer's output; activation and dropout from the graph's nodes.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2, struct_pb2, trackable_object_graph_pb2

from albert_tf.config import AlbertConfig, HiddenAct
from albert_tf.pretrained.stored import StoredModel, find_vocabulary
from albert_tf.pretrained.tf1 import read_arrays
from albert_tf.pretrained.weights import to_ours
from data_prep.errors import InputError

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_BESIDES = ("save_counter", "do_lower_case", "Variable")  # variables that are no weights
_QUERY = "transformer/self_attention/query/kernel"  # (H, N, D)


def read_garden(folder: Path) -> StoredModel:
    """Reads an ALBERT that Model Garden exported for TF-Hub, with its masked-LM head where it has `mlm`.

    Raises:
      InputError: the files are damaged or of another model.
    """
    named = _by_full_name(read_arrays(folder / "variables" / "variables"))
    if _QUERY not in named:
        raise InputError(
            f"{folder} is a SavedModel, but not of an ALBERT encoder: Google's and Model Garden's TF-Hub modules "
            "are read, and our own exports of --kind=encoder. It holds "
            f"{', '.join(sorted(named)[:5]) or 'no variables'}."
        )
    arrays = {name: array for name, array in named.items() if array.dtype.kind == "f"}
    config = _config(arrays, _saved_model(folder / "saved_model.pb"), folder)
    weights = to_ours(arrays, config, "garden", str(folder))
    vocabulary = find_vocabulary(folder / "assets", ["*.model"], "*vocab*.txt")
    return StoredModel("garden", folder, config, weights, vocabulary)


def _by_full_name(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays under their variables' names, which the object graph in the checkpoint has for each key."""
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(arrays[OBJECT_GRAPH])
    return {
        attribute.full_name: arrays[attribute.checkpoint_key]
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.checkpoint_key in arrays and attribute.full_name not in _BESIDES
    }


def _saved_model(path: Path) -> saved_model_pb2.SavedModel:
    saved_model = saved_model_pb2.SavedModel()
    try:
        saved_model.ParseFromString(path.read_bytes())
    except (DecodeError, FileNotFoundError):
        raise InputError(f"{path} is not a whole SavedModel.") from None
    return saved_model


def _config(arrays: dict[str, np.ndarray], saved_model, folder: Path) -> AlbertConfig:
    def shape(name: str, dimensions: int = 2) -> tuple[int, ...]:
        found = arrays[name].shape if name in arrays else ()
        if len(found) != dimensions:
            raise InputError(
                f"{folder} holds no {name} of {dimensions} dimensions, as an ALBERT encoder does."
            )
        return found

    hidden_size, heads, _ = shape(_QUERY, 3)
    vocab_size, embedding_size = shape("word_embeddings/embeddings")
    layers = _count_layers(saved_model)
    if not layers:
        raise InputError(f"{folder} does not return `encoder_outputs`, which say how many layers there are.")
    functions = _functions_of_model(saved_model)
    return AlbertConfig(
        vocab_size=vocab_size,
        embedding_size=embedding_size,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=shape("transformer/intermediate/kernel")[1],
        max_position_embeddings=shape("position_embedding/embeddings")[0],
        type_vocab_size=shape("type_embeddings/embeddings")[0],
        hidden_act=_activation(functions),
        hidden_dropout_prob=_dropout(functions, of_attention=False),
        attention_probs_dropout_prob=_dropout(functions, of_attention=True),
    )


def _count_layers(saved_model) -> int:
    """The longest list named `encoder_outputs` that a function of the SavedModel returns."""
    functions = (
        saved_model.meta_graphs[0].object_graph_def.concrete_functions if saved_model.meta_graphs else {}
    )
    return max((_length(function.output_signature) for function in functions.values()), default=0)


def _length(signature: struct_pb2.StructuredValue) -> int:
    outputs = signature.dict_value.fields
    return len(outputs["encoder_outputs"].list_value.values) if "encoder_outputs" in outputs else 0


def _functions_of_model(saved_model) -> list[list]:
    """Nodes of each function that holds the whole encoder, so that scopes tell its layers apart."""
    functions = [
        function.node_def
        for meta_graph in saved_model.meta_graphs
        for function in meta_graph.graph_def.library.function
    ]
    return [
        list(nodes) for nodes in functions if any("transformer/self_attention" in node.name for node in nodes)
    ]


def _activation(functions: list[list]) -> HiddenAct:
    operations = {node.op for nodes in functions for node in nodes}
    if operations & {"Erf", "Erfc"}:
        return "gelu_erf"
    return "relu" if "Relu" in operations else "gelu"  # the tanh form; the pooler has a Tanh in any case


def _dropout(functions: list[list], *, of_attention: bool) -> float:
    """The rate with which random numbers are compared: in self-attention, or after the embeddings."""
    inside = "transformer/self_attention" if of_attention else "dropout/"
    for nodes in functions:
        for node in nodes:
            outside = not of_attention and "transformer" in node.name
            if node.name.endswith("dropout/GreaterEqual/y") and inside in node.name and not outside:
                return round(float(tf.make_ndarray(node.attr["value"].tensor)), 6)
    return 0.0
