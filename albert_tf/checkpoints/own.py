"""Our own files: a run's checkpoints, what `albert convert --to=keras` writes, and fine-tuned models."""

import base64
import contextlib
import dataclasses
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import keras
import msgspec
import numpy as np

from albert_tf.checkpoints.heads import Head, from_task_model
from albert_tf.checkpoints.keras_files import (
    WEIGHTS_FILE,
    check_size,
    check_weights,
    keras_reason,
    read_description,
    read_hdf5,
)
from albert_tf.checkpoints.names import (
    CONDITIONAL_SPAN_HEAD,
    OPTIONAL_PARTS,
    SEQUENCE_HEAD,
    SPAN_HEAD,
    TOKEN_HEAD,
    OptionalPart,
)
from albert_tf.checkpoints.stored import StoredModel, find_vocabulary, read_optional_json
from albert_tf.checkpoints.weights import weights_of
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.tasks.columns import Columns
from albert_tf.training.run_files import (
    CHECKPOINTS,
    MANIFEST_FILE,
    SETTINGS_FILE,
    best_seed_folder,
    read_best_step,
)
from albert_tf.training.weights import find_checkpoint, load_weights
from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest
from data_prep.files import Number, as_record, write_json
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary, VocabularyKind

MODEL_FILE = "model.keras"
_FACTS_FILE = "pretrained.json"  # which parts are trained, and the normalization of the vocabulary
_PRETRAINER, _ENCODER = "albert_tf>AlbertPretrainer", "albert_tf>AlbertEncoder"
# The kind of task of each task model, and its head.
_TASK_MODELS = {
    "albert_tf>TextClassifier": ("classification", SEQUENCE_HEAD),
    "albert_tf>OrdinalClassifier": ("ordinal_classification", SEQUENCE_HEAD),
    "albert_tf>MultiLabelClassifier": ("multi_label_classification", SEQUENCE_HEAD),
    "albert_tf>TextRegressor": ("regression", SEQUENCE_HEAD),
    "albert_tf>MultipleChoice": ("multiple_choice", SEQUENCE_HEAD),
    "albert_tf>QuestionAnswering": ("question_answering", SPAN_HEAD),
    "albert_tf>TokenClassifier": ("token_classification", TOKEN_HEAD),
}


def is_run(path: Path) -> bool:
    """Whether a path is the folder of a pretraining run, or a checkpoint in one."""
    if path.is_dir():
        return (path / CHECKPOINTS).is_dir()
    has_index = path.with_name(f"{path.name}.index").exists()
    return has_index and path.parent.name == CHECKPOINTS and (path.parent.parent / CONFIG_FILE).exists()


def read_run(path: Path) -> StoredModel:
    """Reads the checkpoint that `path` names, or in a run's folder the one that `find_checkpoint` takes.

    Raises:
      InputError: there is no checkpoint, or it does not fit the run's configuration.
    """
    run = _run_folder(path)
    config = AlbertConfig.from_json_file(run / CONFIG_FILE)
    prefix = Path(find_checkpoint(path))
    size = sum(file.stat().st_size for file in prefix.parent.glob(f"{prefix.name}.data-*"))
    check_size(config, size, prefix)
    model = AlbertPretrainer(config, dtype="float32")
    load_weights(model, prefix)
    notes: tuple[str, ...] = ()
    if path.is_dir() and (best := read_best_step(run)) is not None:
        which = "the best on held-out text" if prefix.name == f"ckpt-{best}" else "the last one"
        notes = (
            f"these are the weights of {prefix.name}, {which}; to take others, name a checkpoint of the run",
        )
    return StoredModel("run", prefix, config, weights_of(model), read_run_vocabulary(path), notes)


def read_run_config(path: Path) -> AlbertConfig | None:
    """The configuration in a run's folder, or in that of a checkpoint, if the folder holds one."""
    file = _run_folder(path) / CONFIG_FILE
    return AlbertConfig.from_json_file(file) if file.exists() else None


def read_config(path: Path) -> AlbertConfig | None:
    """The configuration of a run, a checkpoint in one or a .keras file, without its weights; None for others."""
    file = find_model_file(path)
    if file is None:
        return read_run_config(path) if is_run(path) else None
    description = as_record(_Description, read_description(file), file)
    if description.registered_name in _TASK_MODELS:
        return _config_of(as_record(_TaskModelConfig, description.config, file).encoder.config, file)
    return _config_of(as_record(_Serialized, description.config, file).config, file)


def read_run_vocabulary(path: Path) -> Vocabulary | None:
    """The vocabulary of a run's folder or checkpoint, if the folder holds one.

    Raises:
      InputError: the vocabulary is not the one that the run's examples were made with.
    """
    run = _run_folder(path)
    manifest = run / MANIFEST_FILE
    if not manifest.exists():
        return find_vocabulary(run)
    facts = Manifest.read(manifest).vocabulary
    vocabulary = find_vocabulary(run, otherwise=facts.normalization)
    if vocabulary and vocabulary.sha256 != facts.sha256:
        raise InputError(
            f"{vocabulary.file} must be the vocabulary that the run's examples were made with. Its SHA-256 is not "
            f"the one in {manifest.name}; copy the vocabulary there again."
        )
    return vocabulary


def _run_folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent.parent


def find_model_file(path: Path) -> Path | None:
    """The .keras file at `path`, in this folder, or in that of the best seed of a run; None if there is none."""
    if path.is_file():
        return path if path.suffix == ".keras" else None
    folders = [path, *filter(None, [best_seed_folder(path)])]
    return next((folder / MODEL_FILE for folder in folders if (folder / MODEL_FILE).exists()), None)


def read_keras(path: Path) -> StoredModel:
    """Reads a .keras file of an `AlbertPretrainer`, an `AlbertEncoder` or a fine-tuned model.

    Only the configuration and the weights are read; no class that the file names is created.

    Raises:
      InputError: the file is damaged, or holds another model or a quantized one.
    """
    description = as_record(_Description, read_description(path), path)
    name, config = description.registered_name, description.config
    if "quantized" in config:
        raise InputError(
            "After Keras' `quantize`, a fine-tuned model can only be exported for its task, and predict. Received "
            f"{path}; name the model as it was before."
        )
    if name == _PRETRAINER:
        return _read_pretrainer(path, as_record(_Serialized, config, path).config)
    if name == _ENCODER:
        return _read_encoder(path, as_record(_Serialized, config, path).config)
    if name in _TASK_MODELS:
        return _read_finetuned(path, as_record(_TaskModelConfig, config, path), *_TASK_MODELS[name])
    raise InputError(f"{path} must hold a model of albert_tf. Received {name or 'no name of a class'}.")


def read_task_kind(path: Path) -> str | None:
    """The kind of task of the fine-tuned model in a .keras file; None for a pretrained model.

    Raises:
      InputError: the file is damaged.
    """
    name = as_record(_Description, read_description(path), path).registered_name
    return _TASK_MODELS[name][0] if name in _TASK_MODELS else None


@dataclass(frozen=True)
class _Serialized:
    config: dict[str, Any]


@dataclass(frozen=True)
class _Description(_Serialized):
    registered_name: str | None = None


@dataclass(frozen=True)
class _TaskModelConfig:
    encoder: _Serialized
    labels: tuple[str, ...] = ()
    thresholds: tuple[Number, ...] = ()
    classifier_dropout: Number | None = None
    answerable: bool = False
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


def write_keras(stored: StoredModel, folder: Path) -> list[str]:
    """Writes model.keras, an `AlbertPretrainer` for `keras.models.load_model`, and the files that belong to it."""
    stored.to_pretrainer(seed=0, dtype="float32").save(folder / MODEL_FILE)
    stored.config.to_json_file(folder / CONFIG_FILE)
    if stored.vocabulary:
        stored.vocabulary.save(folder)
    write_facts(folder, stored.parts, stored.vocabulary)
    if not stored.missing:
        return []
    return [f"untrained in {MODEL_FILE}, according to {_FACTS_FILE}: {', '.join(stored.missing)}"]


def write_facts(folder: Path, parts: Sequence[str], vocabulary: Vocabulary | None) -> Path:
    """Writes what neither configuration nor weights express: the parts, the normalization; returns the path."""
    facts: dict[str, Any] = {"parts": list(parts)}
    if vocabulary:
        facts |= dataclasses.asdict(vocabulary.normalization)
    write_json(folder / _FACTS_FILE, facts)
    return folder / _FACTS_FILE


def read_parts(folder: Path) -> Sequence[str]:
    """The trained parts of the model in a folder, according to its file of `write_facts`; all without one."""
    path = folder / _FACTS_FILE
    return as_record(_Facts, read_optional_json(path), path).parts


def read_vocabulary(folder: Path) -> Vocabulary | None:
    """The vocabulary in a folder, with the normalization in its file of `write_facts`, if there is one."""
    path = folder / _FACTS_FILE
    return find_vocabulary(folder, otherwise=Normalization.from_dict(read_optional_json(path), str(path)))


@dataclass(frozen=True)
class _Facts:
    parts: Sequence[OptionalPart] = OPTIONAL_PARTS


def _read_pretrainer(path: Path, shape: dict) -> StoredModel:
    model = _new_model(shape, path)
    _load_weights(model, path)
    weights = _select_parts(model, read_parts(path.parent))
    return StoredModel("keras", path, model.config, weights, read_vocabulary(path.parent))


def _read_encoder(path: Path, shape: dict) -> StoredModel:
    model = _new_model(shape, path)
    _load_weights(model.encoder, path)
    return StoredModel(
        "keras", path, model.config, _encoder_weights(model, path), read_vocabulary(path.parent)
    )


def _read_finetuned(path: Path, config: _TaskModelConfig, kind: str, part: str) -> StoredModel:
    """The encoder, the head, and the vocabulary, which the configuration holds."""
    model = _new_model(config.encoder.config, path)
    _load_weights(_TaskModelEncoder(model.encoder), path)
    part = CONDITIONAL_SPAN_HEAD if config.answerable else part
    with _weights_file(path) as file:
        arrays = read_hdf5(file, lambda name: not name.startswith("encoder/"))
    size, weights = from_task_model(arrays, model.config, part, str(path))
    head = Head(
        size,
        (kind,),
        weights,
        config.labels,
        config.classifier_dropout,
        config.thresholds,
        _lengths_in(config.preprocessor.config, path) if config.preprocessor else {},
    )
    vocabulary = _vocabulary_in(config.preprocessor.config, path) if config.preprocessor else None
    weights = _encoder_weights(model, path)
    return StoredModel(
        "keras", path, model.config, weights, vocabulary, (), head, columns=_columns(path, config)
    )


def _columns(path: Path, config: _TaskModelConfig) -> Columns:
    """The columns of the training data, by the run's settings and by what `fit` has noted."""
    noted = as_record(_ColumnsConfig, config.preprocessor.config, path).columns if config.preprocessor else {}
    settings = read_optional_json(path.parent / SETTINGS_FILE) if path.name == MODEL_FILE else {}
    return Columns.noted(noted).replaced_by(Columns.of_run(settings))


def _vocabulary_in(preprocessor: dict[str, Any], path: Path) -> Vocabulary:
    """The vocabulary in the configuration of a preprocessor."""
    stored = as_record(_VocabularyConfig, preprocessor, path)
    try:
        content = base64.b64decode(stored.content)
    except ValueError as error:
        raise InputError(f"{path} must hold its vocabulary as base64. It does not: {error}.") from None
    return Vocabulary(stored.kind, content, Normalization.from_dict(preprocessor, str(path)))


def _lengths_in(preprocessor: dict[str, Any], path: Path) -> dict[str, int]:
    """The lengths in the configuration of a preprocessor, in tokens."""
    stored = vars(as_record(_LengthsConfig, preprocessor, path))
    return {name: length for name, length in stored.items() if length is not None}


class _TaskModelEncoder(keras.Model):
    """An encoder under the attribute that all task models keep theirs in, so that their weights load into it."""

    def __init__(self, encoder: AlbertEncoder):
        super().__init__()
        self.encoder = encoder
        self.built = True

    def load_own_variables(self, store):
        """Skips the state of the task model's dropout."""


def _new_model(shape: dict, path: Path) -> AlbertPretrainer:
    """An untrained model of the shape that a .keras file describes."""
    config = _config_of(shape, path)
    check_size(config, path.stat().st_size, path)
    return AlbertPretrainer(config, dtype="float32")


def _config_of(shape: dict, path: Path) -> AlbertConfig:
    """The configuration of an encoder, or of the encoder of a pretrainer, that a .keras file describes."""
    try:
        return AlbertConfig.from_dict(shape.get("config", shape))
    except (InputError, AttributeError) as error:
        raise InputError(f"{path}: {error}") from None


def _load_weights(model: keras.Model, path: Path) -> None:
    """Sets a model's weights to those of a .keras file."""
    with _weights_file(path) as file:
        try:
            model.load_weights(file)
        except Exception as error:  # Keras has no common class for damaged files
            raise InputError(f"{path} does not fit its configuration: {keras_reason(error)}") from None
    check_weights(model, path)


@contextlib.contextmanager
def _weights_file(path: Path) -> Iterator[Path]:
    """The file of the weights in a .keras file, unpacked within the context."""
    with tempfile.TemporaryDirectory() as temporary:
        with zipfile.ZipFile(path) as archive:
            file = archive.extract(WEIGHTS_FILE, temporary)
        yield Path(file)


def _encoder_weights(model: AlbertPretrainer, path: Path) -> dict[str, np.ndarray]:
    """The weights of the encoder, with the pooler unless the folder's facts say that it is untrained."""
    return _select_parts(model, ["pooler"] if "pooler" in read_parts(path.parent) else [])


def _select_parts(model: AlbertPretrainer, parts: Sequence[str]) -> dict[str, np.ndarray]:
    """The weights of the encoder and of the given optional parts."""
    others = set(OPTIONAL_PARTS) - set(parts)
    return {name: array for name, array in weights_of(model).items() if name.split("/")[0] not in others}
