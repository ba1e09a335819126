"""TF2 SavedModels of an encoder: our exports, and Model Garden's modules on TF-Hub. Nothing in them is run.

The object graph in the checkpoint maps names to keys. Our exports keep variables under our names, and the
configuration as an asset. Model Garden's modules have no configuration file: the sizes follow from the arrays, the
number of heads included; the number of layers from the signature, which lists every layer's output; activation and
dropout from the nodes of the graph.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2, struct_pb2
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from albert_tf.checkpoints.facts import read_vocabulary
from albert_tf.checkpoints.stored import StoredModel, find_vocabulary
from albert_tf.checkpoints.tf1 import read_arrays
from albert_tf.checkpoints.weights import to_ours
from albert_tf.config import CONFIG_FILE, AlbertConfig, HiddenAct
from data_prep.errors import InputError
from data_prep.files import read_bytes, refuse_damage
from data_prep.tokenizers.normalization import Normalization

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
WEIGHTS = "albert_weights"  # the attribute of our exports that maps our names to variables
CONSTANT = f"{WEIGHTS}/"  # prefix of the weights that are constants, as in bfloat16 exports
_VARIABLES = "variables/variables"  # the prefix of a SavedModel's checkpoint
_LOWER_CASE = "do_lower_case"  # Model Garden's attribute with the tokenizer's setting, a variable
_NO_WEIGHTS = ("save_counter", _LOWER_CASE, "Variable")  # Model Garden's other variables
_OUR_ENCODER = "albert_encoder"  # prefix of the variables' names
_QUERY = "transformer/self_attention/query/kernel"  # (H, N, D)


def read_savedmodel(folder: Path) -> StoredModel:
    """Reads an export of an encoder, or an ALBERT that Model Garden exported, with the heads that it has.

    Raises:
      InputError: the files are damaged, do not fit each other, or hold another model.
    """
    graph = TrackableObjectGraph()
    content = read_arrays(folder / _VARIABLES, OBJECT_GRAPH.__eq__)[OBJECT_GRAPH]
    with refuse_damage(folder, "a complete SavedModel"):
        graph.ParseFromString(content)
        keys = _export_keys(graph)
    return _read_export(folder, keys) if keys else _read_garden(folder, graph)


def _export_keys(graph: TrackableObjectGraph) -> dict[str, str]:
    """Our name of each variable of our exports -> its key in the checkpoint; empty for other SavedModels."""
    weights = [child.node_id for child in graph.nodes[0].children if child.local_name == WEIGHTS]
    return {
        child.local_name: attribute.checkpoint_key
        for node_id in weights
        for child in graph.nodes[node_id].children
        for attribute in graph.nodes[child.node_id].attributes
    }


def _read_export(folder: Path, keys: dict[str, str]) -> StoredModel:
    assets = folder / "assets"
    if not (assets / CONFIG_FILE).exists():
        raise _for_predictions(folder)
    config = AlbertConfig.from_json_file(assets / CONFIG_FILE)
    arrays = read_arrays(folder / _VARIABLES, set(keys.values()).__contains__)
    if lost := sorted(name for name, key in keys.items() if key not in arrays):
        raise InputError(f"{folder} is not a complete SavedModel: it lacks {', '.join(lost)}.")
    named = _constants(_parse(folder / "saved_model.pb")) | {name: arrays[key] for name, key in keys.items()}
    weights = to_ours(named, config, "ours", str(folder))
    vocabulary = read_vocabulary(assets)
    dtypes = {array.dtype.name for array in named.values()} - {"float32"}
    notes = tuple(f"the weights were rounded to {dtype}" for dtype in sorted(dtypes))
    return StoredModel("export", folder, config, weights, vocabulary, notes)


def _for_predictions(folder: Path) -> InputError:
    return InputError(
        f"{folder} is an export for predictions only, which `tf.saved_model.load` runs. Only exports of "
        "--kind=encoder can be read; name the model that this one was exported from, which its README.md names."
    )


def _constants(saved_model: saved_model_pb2.SavedModel) -> dict[str, np.ndarray]:
    """The weights that our export holds as constants, under our names."""
    with refuse_damage("A constant of a SavedModel", "an array"):
        return {
            node.name.removeprefix(CONSTANT): tf.make_ndarray(node.attr["value"].tensor)
            for graph in saved_model.meta_graphs
            for function in graph.graph_def.library.function
            for node in function.node_def
            if node.op == "Const" and node.name.startswith(CONSTANT)
        }


def _read_garden(folder: Path, graph: TrackableObjectGraph) -> StoredModel:
    arrays = read_arrays(folder / _VARIABLES)
    named = {
        attribute.full_name: arrays[attribute.checkpoint_key]
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.checkpoint_key in arrays and attribute.full_name not in _NO_WEIGHTS
    }
    if any(name.startswith(_OUR_ENCODER) for name in named):
        raise _for_predictions(folder)
    if _QUERY not in named:
        raise InputError(
            f"{folder} is a SavedModel, but not of an ALBERT encoder. Google's and Model Garden's TF-Hub modules "
            "can be read, and our own exports of --kind=encoder. This one holds "
            f"{', '.join(sorted(named)[:5]) or 'no variables'}."
        )
    named = {name: array for name, array in named.items() if array.dtype.kind == "f"}
    config = _garden_config(named, _parse(folder / "saved_model.pb"), folder)
    weights = to_ours(named, config, "garden", str(folder))
    normalization = Normalization(do_lower_case=_is_lower_case(graph, arrays))
    vocabulary = find_vocabulary(folder / "assets", wordpiece="*vocab*.txt", default=normalization)
    return StoredModel("garden", folder, config, weights, vocabulary)


def _is_lower_case(graph: TrackableObjectGraph, arrays: dict[str, np.ndarray]) -> bool:
    ids = {child.node_id for child in graph.nodes[0].children if child.local_name == _LOWER_CASE}
    nodes = [node for i, node in enumerate(graph.nodes) if i in ids]
    keys = [attribute.checkpoint_key for node in nodes for attribute in node.attributes]
    return all(np.all(arrays[key]) for key in keys if key in arrays)


def _parse(path: Path) -> saved_model_pb2.SavedModel:
    content = read_bytes(path)
    with refuse_damage(path, "a complete SavedModel"):
        return saved_model_pb2.SavedModel.FromString(content)


def _garden_config(
    arrays: dict[str, np.ndarray], saved_model: saved_model_pb2.SavedModel, folder: Path
) -> AlbertConfig:
    def shape(name: str, dimensions: int = 2) -> tuple[int, ...]:
        found = arrays[name].shape if name in arrays else ()
        if len(found) != dimensions:
            raise InputError(
                f"{folder} holds no {name} with {dimensions} dimensions, as an ALBERT encoder does."
            )
        return found

    hidden_size, heads, _ = shape(_QUERY, 3)
    vocab_size, embedding_size = shape("word_embeddings/embeddings")
    layers = _count_layers(saved_model)
    if not layers:
        raise InputError(f"{folder} does not return `encoder_outputs`, which give the number of layers.")
    functions = _encoder_functions(saved_model)
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
        hidden_dropout_prob=_dropout(functions, in_attention=False),
        attention_probs_dropout_prob=_dropout(functions, in_attention=True),
    )


def _count_layers(saved_model: saved_model_pb2.SavedModel) -> int:
    """The length of the longest list named `encoder_outputs` that a function of the SavedModel returns."""
    graphs = saved_model.meta_graphs
    functions = graphs[0].object_graph_def.concrete_functions if graphs else {}
    return max((_count_outputs(function.output_signature) for function in functions.values()), default=0)


def _count_outputs(signature: struct_pb2.StructuredValue) -> int:
    outputs = signature.dict_value.fields
    return len(outputs["encoder_outputs"].list_value.values) if "encoder_outputs" in outputs else 0


def _encoder_functions(saved_model: saved_model_pb2.SavedModel) -> list[list]:
    """The nodes of each function that holds the whole encoder, so that name scopes distinguish its layers."""
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


def _dropout(functions: list[list], *, in_attention: bool) -> float:
    """The rate that random numbers are compared with: in self-attention, or after the embeddings."""
    scope = "transformer/self_attention" if in_attention else "dropout/"
    for nodes in functions:
        for node in nodes:
            is_elsewhere = not in_attention and "transformer" in node.name
            if node.name.endswith("dropout/GreaterEqual/y") and scope in node.name and not is_elsewhere:
                with refuse_damage(f"The constant {node.name}", "one number"):
                    return round(float(tf.make_ndarray(node.attr["value"].tensor)), 6)
    return 0.0
