"""SavedModels that `albert export --kind=encoder` wrote: variables and configuration are read, nothing is run."""

from pathlib import Path

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2

from albert_tf.config import AlbertConfig
from albert_tf.pretrained.garden import OBJECT_GRAPH
from albert_tf.pretrained.own import CONFIG_FILE, FACTS_FILE
from albert_tf.pretrained.stored import StoredModel, find_vocabulary
from albert_tf.pretrained.tf1 import read_arrays
from albert_tf.pretrained.weights import to_ours
from data_prep.errors import InputError
from data_prep.files import read_json_object

WEIGHTS = "albert_weights"  # of the object that is saved: our name of each variable -> the variable


def is_export(folder: Path) -> bool:
    """Whether a SavedModel has variables under our names."""
    return bool(_keys(folder))


def read_export(folder: Path) -> StoredModel:
    """Reads an export of an encoder with the heads that it has.

    Raises:
      InputError: the files are damaged, do not fit each other, or are of another kind of export.
    """
    assets = folder / "assets"
    if not (assets / CONFIG_FILE).exists():
        raise InputError(
            f"{folder} is an export of a kind that is for predictions only. Of exports --kind=encoder is read; or "
            "name what this one was made of, which its README.md says."
        )
    config = AlbertConfig.from_json_file(assets / CONFIG_FILE)
    keys = _keys(folder)
    wanted = set(keys.values())
    arrays = read_arrays(folder / "variables" / "variables", wanted.__contains__)
    if gone := [name for name, key in keys.items() if key not in arrays]:
        raise InputError(f"{folder} is not a whole SavedModel: it lacks {', '.join(sorted(gone))}.")
    named = {name: arrays[key] for name, key in keys.items()}
    weights = to_ours(named, config, "ours", str(folder))
    facts = read_json_object(assets / FACTS_FILE) if (assets / FACTS_FILE).exists() else {}
    lower = bool(facts.get("do_lower_case", True))
    vocabulary = find_vocabulary(assets, ["*.model"], "vocab.txt", lower)
    dtypes = {array.dtype.name for array in named.values()} - {"float32"}
    notes = tuple(f"the weights were rounded to {dtype}" for dtype in sorted(dtypes))
    return StoredModel("export", folder, config, weights, vocabulary, notes)


def _keys(folder: Path) -> dict[str, str]:
    """The checkpoint's key of each variable that has a name of ours, from the graph of objects."""
    prefix = folder / "variables" / "variables"
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    serialized = read_arrays(prefix, OBJECT_GRAPH.__eq__)[OBJECT_GRAPH]
    try:
        graph.ParseFromString(serialized)
        (root, *_) = graph.nodes
        weights = next((child.node_id for child in root.children if child.local_name == WEIGHTS), None)
        named = [] if weights is None else graph.nodes[weights].children
        return {
            child.local_name: attribute.checkpoint_key
            for child in named
            for attribute in graph.nodes[child.node_id].attributes
        }
    except (DecodeError, IndexError, ValueError):  # ValueError: no nodes
        raise InputError(
            f"{folder} is not a whole SavedModel: it does not say what its variables are."
        ) from None
