"""Our own .keras files: a pretrainer, an encoder or a fine-tuned model. No class that a file names is created."""

import base64
import re
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from albert_tf.checkpoints.facts import read_parts, read_vocabulary
from albert_tf.checkpoints.heads import Head, from_task_model
from albert_tf.checkpoints.keras_files import (
    NO_WEIGHTS,
    WEIGHTS_FILE,
    check_size,
    read_description,
    read_hdf5,
)
from albert_tf.checkpoints.names import (
    OPTIONAL_PARTS,
    SEQUENCE_HEAD,
    TOKEN_HEAD,
    VECTOR_HEAD,
    HeadPart,
    HeadSize,
)
from albert_tf.checkpoints.run_files import MODEL_FILE, SETTINGS_FILE, best_seed_folder
from albert_tf.checkpoints.sentence_vectors import Pooling, SentenceVectors, VectorDense
from albert_tf.checkpoints.stored import StoredModel, read_optional_json
from albert_tf.checkpoints.weights import as_weights, to_ours
from albert_tf.config import AlbertConfig
from data_prep.errors import InputError
from data_prep.files import Number, as_record
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary, VocabularyKind

_PACKAGE = "albert_tf>"  # prefix of the registered names of our classes
_ENCODER = "encoder/"  # prefix of the encoder's arrays in the files of other models
_LAYER = re.compile(r"(layers/)?\w+/")


def find_model_file(path: Path) -> Path | None:
    """The .keras file at `path`, in this folder, or in that of the best seed of a run; None if there is none."""
    if path.is_file():
        return path if path.suffix == ".keras" else None
    folders = [path, *filter(None, [best_seed_folder(path)])]
    return next((folder / MODEL_FILE for folder in folders if (folder / MODEL_FILE).exists()), None)


@dataclass(frozen=True)
class _Serialized:
    """An object as Keras describes it: a whole model, or a part of one."""

    config: dict[str, Any]
    registered_name: str | None = None


@dataclass(frozen=True)
class TaskModelConfig:
    """The part of a fine-tuned model's configuration that its readers need."""

    kind: str
    head: HeadPart
    encoder: dict[str, Any]
    labels: tuple[str, ...] = ()
    thresholds: tuple[Number, ...] = ()
    classifier_dropout: Number | None = None
    preprocessor: _Serialized | None = None


@dataclass(frozen=True)
class _VocabularyConfig:
    kind: VocabularyKind
    content: str


@dataclass(frozen=True)
class _ColumnsConfig:
    columns: dict[str, str] = field(default_factory=dict)


_Length = Annotated[int, msgspec.Meta(ge=1)] | None


@dataclass(frozen=True)
class _LengthsConfig:
    max_seq_length: _Length = None
    max_qa_length: _Length = None
    max_query_length: _Length = None
    doc_stride: _Length = None


@dataclass(frozen=True)
class _VectorsConfig:
    pooling: Pooling = "mean"
    normalize: bool = False
    activation: str = "linear"


@dataclass(frozen=True)
class Described:
    """What a .keras file says of its model.

    Attributes:
      path: the file.
      config: what Keras builds the model from.
      shape: of the encoder.
      task: the kind of task, the head and the preprocessor of a fine-tuned model; None for a pretrained one.
    """

    path: Path
    config: dict[str, Any]
    shape: AlbertConfig
    task: TaskModelConfig | None

    @property
    def is_quantized(self) -> bool:
        """Whether Keras' `quantize` changed it."""
        return "quantized" in self.config

    @property
    def preprocessor(self) -> dict[str, Any]:
        """The configuration of a fine-tuned model's preprocessor; empty if it has none."""
        return self.task.preprocessor.config if self.task and self.task.preprocessor else {}

    def read_vocabulary(self) -> Vocabulary | None:
        """The vocabulary, which a fine-tuned model includes; that of others is a file beside theirs."""
        if self.task is None:
            return read_vocabulary(self.path.parent)
        if not self.preprocessor:
            return None
        stored = as_record(_VocabularyConfig, self.preprocessor, self.path)
        try:
            content = base64.b64decode(stored.content)
        except ValueError as error:
            raise InputError(
                f"{self.path} must hold its vocabulary as base64. It does not: {error}."
            ) from None
        normalization = Normalization.from_dict(self.preprocessor, str(self.path))
        return Vocabulary(stored.kind, content, normalization, f"The vocabulary in {self.path}")


def describe(path: Path) -> Described:
    """Checks everything that a .keras file claims to hold, and returns it without the weights.

    Raises:
      InputError: the file is damaged, holds another model than ours, or claims to hold more than fits into it.
    """
    description = as_record(_Serialized, read_description(path), path)
    name, config = description.registered_name or "no name of a class", description.config
    if not name.startswith(_PACKAGE):
        raise InputError(f"{path} must hold a model of albert_tf. Received {name}.")
    task = as_record(TaskModelConfig, config, path) if "encoder" in config else None
    try:
        shape = AlbertConfig.from_dict((task.encoder if task else config)["config"])
    except (InputError, KeyError, TypeError, AttributeError) as error:
        reason = error if isinstance(error, InputError) else "it does not describe its encoder's shape"
        raise InputError(f"{path}: {reason}") from None
    outputs = max(1, len(task.labels)) if task else 0
    check_size(shape, path.stat().st_size, path, outputs * shape.hidden_size)
    return Described(path, config, shape, task)


def read_keras(path: Path) -> StoredModel:
    """Reads a .keras file of an `AlbertPretrainer`, an `AlbertEncoder` or a fine-tuned model.

    Raises:
      InputError: the file is damaged, or holds another model.
    """
    found = describe(path)
    arrays, vocabulary = _read_arrays(path), found.read_vocabulary()
    if found.is_quantized:  # the names and shapes are Keras' own
        as_weights({name: array for name, array in arrays.items() if array.dtype.kind == "f"}, path)
    if found.task:
        return _read_finetuned(found, found.task, arrays, vocabulary)
    if not found.is_quantized:
        arrays = {name.removeprefix(_ENCODER): array for name, array in arrays.items()}
        arrays = _trained(to_ours(arrays, found.shape, "keras", str(path)), path)
    return StoredModel("keras", path, found.shape, arrays, vocabulary, keras_config=found.config)


def _read_finetuned(
    found: Described, config: TaskModelConfig, arrays: dict[str, np.ndarray], vocabulary: Vocabulary | None
) -> StoredModel:
    """The encoder, the head, and the vocabulary, which the configuration holds."""
    path, shape = found.path, found.shape
    # Keras names the head's layer by the attribute, or in a list of layers.
    in_head = {name: _LAYER.sub("", name, count=1) for name in arrays if not name.startswith(_ENCODER)}
    head_arrays = {inside: arrays.pop(name) for name, inside in in_head.items()}
    arrays = {name.removeprefix(_ENCODER): array for name, array in arrays.items()}
    if found.is_quantized:
        outputs = max(1, len(config.labels)) if config.head in (SEQUENCE_HEAD, TOKEN_HEAD) else 0
        weights, size, head_weights = arrays, HeadSize(config.head, outputs), head_arrays
    elif config.head == VECTOR_HEAD:
        weights = _trained(to_ours(arrays, shape, "keras", str(path)), path)
        size, head_weights = HeadSize(config.head, 0), {}
    else:
        weights = _trained(to_ours(arrays, shape, "keras", str(path)), path)
        size, head_weights = from_task_model(head_arrays, shape, config.head, str(path))
    lengths = _lengths_in(found.preprocessor, path)
    try:
        head = Head(
            size,
            (),
            head_weights,
            config.labels,
            config.classifier_dropout,
            config.thresholds,
            lengths,
            config.kind,
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    vectors = _vectors_in(found, head_arrays, lengths) if config.head == VECTOR_HEAD else None
    settings = read_optional_json(path.parent / SETTINGS_FILE) if path.name == MODEL_FILE else {}
    return StoredModel(
        "keras",
        path,
        shape,
        weights,
        vocabulary,
        head=head,
        sentence_vectors=vectors,
        columns=as_record(_ColumnsConfig, found.preprocessor, path).columns,
        settings=settings,
        keras_config=found.config,
    )


def _vectors_in(found: Described, arrays: dict[str, np.ndarray], lengths: dict[str, int]) -> SentenceVectors:
    """How the model of a file makes one vector of a text, with its dense layer, which has a kernel and a bias."""
    config = as_record(_VectorsConfig, found.config, found.path)
    dense = None
    if arrays and not found.is_quantized:
        layer = as_weights(arrays, found.path)
        shapes = sorted((name, array.shape) for name, array in layer.items())
        D = shapes[-1][1][-1] if shapes[-1][1] else 0
        if shapes != [("vars/0", (found.shape.hidden_size, D)), ("vars/1", (D,))]:
            raise InputError(
                f"{found.path} must hold the kernel and the bias of a dense layer. Received {shapes}."
            )
        dense = VectorDense(layer["vars/0"], layer["vars/1"], config.activation)
    return SentenceVectors(config.pooling, dense, config.normalize, lengths.get("max_seq_length"))


def _lengths_in(preprocessor: dict[str, Any], path: Path) -> dict[str, int]:
    """The lengths in the configuration of a preprocessor, in tokens."""
    stored = vars(as_record(_LengthsConfig, preprocessor, path))
    return {name: length for name, length in stored.items() if length is not None}


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The weights in a .keras file, under its names."""
    with tempfile.TemporaryDirectory() as temporary, zipfile.ZipFile(path) as archive:
        file = archive.extract(WEIGHTS_FILE, temporary)
        return read_hdf5(Path(file), lambda name: not NO_WEIGHTS.match(name))


def _trained(weights: dict[str, np.ndarray], path: Path) -> dict[str, np.ndarray]:
    """The weights of the encoder and of the optional parts that the facts beside the file list as trained."""
    others = set(OPTIONAL_PARTS) - set(read_parts(path.parent))
    return {name: array for name, array in weights.items() if name.split("/")[0] not in others}
