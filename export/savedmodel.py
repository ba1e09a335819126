"""What all SavedModels share: tracked variables, warm-up requests, a check, a table of signatures."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.checkpoints.card import markdown_table
from albert_tf.checkpoints.names import OPTIONAL_PARTS
from albert_tf.checkpoints.savedmodels import WEIGHTS
from albert_tf.conversion.verification import OutputComparison, check_equal, compare_outputs
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.model.weights import variables_by_name
from data_prep.tokenizers.vocabulary import Vocabulary, normalization_file

_WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"
_INTERNAL = ("__saved_model_init_op", "__saved_model_train_op")  # TensorFlow's own signatures


@dataclass(frozen=True)
class Export:
    """What becomes a SavedModel.

    Attributes:
      root: the trackable object.
      signatures: name -> tf.function or concrete function.
      check: runs the loaded SavedModel and the model on the same input; returns a pair of arrays for each output,
        the SavedModel's first.
      example: Python that uses the SavedModel in the working directory.
      warmup: the requests, strings for each input, with which TensorFlow Serving warms up.
      notes: sentences on what the SavedModel lacks.
    """

    root: tf.train.Checkpoint
    signatures: dict[str, Callable[..., Any]]
    check: Callable[[Any], dict[str, tuple[Any, Any]]]
    example: str
    warmup: Sequence[Mapping[str, Sequence]] = ()
    notes: tuple[str, ...] = ()


def function_of_ids(
    function: Callable, names: Iterable[str], rank: int = 2
) -> tf.types.experimental.PolymorphicFunction:
    """A tf.function of a dict of int32 arrays of any size, (B, T) by default."""
    specs = {name: tf.TensorSpec([None] * rank, tf.int32, name=name) for name in names}
    return tf.function(function, input_signature=[specs], autograph=False)


def track_variables(
    root: tf.train.Checkpoint, variables: Iterable[keras.Variable], trainable: Iterable[keras.Variable]
) -> None:
    """Gives `root` the lists of variables that TF-Hub's KerasLayer looks for."""
    root.variables = [variable.value for variable in variables]
    root.trainable_variables = [variable.value for variable in trainable]
    root.regularization_losses = []


def track_pretrainer(root: tf.train.Checkpoint, model: AlbertPretrainer, parts: Sequence[str]) -> None:
    """Gives `root` the variables of the encoder and of the optional parts `parts`."""
    layers = {
        "pooler": model.encoder.pooler,
        "masked_lm": model.masked_lm,
        "sentence_order": model.sentence_order,
    }
    assert tuple(layers) == OPTIONAL_PARTS
    others = {id(v) for part, layer in layers.items() if part not in parts for v in layer.variables}
    track_variables(
        root,
        [v for v in model.variables if id(v) not in others],
        [v for v in model.trainable_variables if id(v) not in others],
    )
    # `load_pretrained` reads the export by these names.
    named = variables_by_name(model).items()
    setattr(root, WEIGHTS, {name: v.value for name, v in named if id(v) not in others})
    if "pooler" not in parts:  # tracked nevertheless: the encoder's graph reads its variables
        root.unused = [v.value for v in layers["pooler"].variables]


def track_vocabulary(root: tf.train.Checkpoint, vocabulary: Vocabulary, assets: Path) -> None:
    """Writes a vocabulary, and its normalization if it has one, into a folder, and makes the files assets."""
    file = vocabulary.save(assets)
    root.vocab_file = tf.saved_model.Asset(str(file))
    if normalization_file(file).exists():
        root.normalization_file = tf.saved_model.Asset(str(normalization_file(file)))


def write_savedmodel(export: Export, folder: Path) -> None:
    """Writes the SavedModel and its warm-up requests into an empty folder."""
    tf.saved_model.save(export.root, str(folder), signatures=export.signatures)
    if export.warmup:
        write_warmup(folder, export.warmup)


def check_savedmodel(export: Export, folder: Path, *, rounded: bool = False) -> OutputComparison:
    """Loads a SavedModel and compares its outputs with the model's own.

    Args:
      export: the model, as it was before any rounding.
      folder: the SavedModel.
      rounded: whether the SavedModel computes in fewer bits than `export`: then any finite difference passes.

    Raises:
      InputError: they differ by more than rounding.
    """
    outputs = export.check(tf.saved_model.load(str(folder)))
    ours = {name: pair[1] for name, pair in outputs.items()}
    theirs = {name: pair[0] for name, pair in outputs.items()}
    comparison = compare_outputs(ours, theirs, "albert_tf", "tf.saved_model.load")
    check_equal(comparison, rounded=rounded)
    return comparison


def signatures_section(folder: Path) -> str:
    """A section of README.md with the inputs and outputs of each signature, read from the files."""
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    rows = [
        (f"`{name}`", _describe_tensors(signature.inputs), _describe_tensors(signature.outputs))
        for name, signature in sorted(saved.meta_graphs[0].signature_def.items())
        if name not in _INTERNAL
    ]
    return "## Signatures\n\n" + markdown_table(("signature", "inputs", "outputs"), rows)


def _describe_tensors(infos) -> str:
    """`name` int32 (?, 128), and so on; ? is any size."""
    return ", ".join(f"`{name}` {_describe_tensor(info)}" for name, info in sorted(infos.items()))


def _describe_tensor(info) -> str:
    sizes = ["?" if dim.size < 0 else str(dim.size) for dim in info.tensor_shape.dim]
    shape = "any shape" if info.tensor_shape.unknown_rank else f"({', '.join(sizes)})"
    return f"{tf.dtypes.as_dtype(info.dtype).name} {shape}"


# TensorFlow Serving reads warm-up requests from a TFRecord of PredictionLog messages. They are encoded here,
# because the package that defines them, tensorflow-serving-api, depends on gRPC for four small messages:
#
#     PredictionLog { 6: PredictLog { 1: PredictRequest { 1: ModelSpec { 3: signature_name }
#                                                         2: inputs { 1: key, 2: TensorProto } } } }


def write_warmup(folder: Path, requests: Sequence[Mapping[str, Sequence]]) -> Path:
    """Writes requests of strings for the inputs of the default signature into a SavedModel; returns the file."""
    file = folder / _WARMUP_FILE
    file.parent.mkdir()
    with tf.io.TFRecordWriter(str(file)) as writer:
        for inputs in requests:
            tensors = {name: tf.make_tensor_proto(values, tf.string) for name, values in inputs.items()}
            writer.write(prediction_log(tensors))
    return file


def prediction_log(inputs: dict) -> bytes:
    """A serialized PredictionLog of one request to the default signature; `inputs` are TensorProtos by name."""
    model_spec = _field(3, b"serving_default")
    entries = [
        _field(1, name.encode()) + _field(2, tensor.SerializeToString()) for name, tensor in inputs.items()
    ]
    request = _field(1, model_spec) + b"".join(_field(2, entry) for entry in entries)
    return _field(6, _field(1, request))


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field: its tag (wire type 2), the length in groups of seven bits, the lowest first."""
    length, groups = len(content), []
    while length > 127:
        groups.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2, *groups, length]) + content
