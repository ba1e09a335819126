"""Our own files: a run's folder or checkpoint, what `albert convert --to keras` writes, and fine-tuned models."""

import base64
import json
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.pretrained.keras_files import WEIGHTS_FILE, check_size, described
from albert_tf.pretrained.names import OPTIONAL_PARTS
from albert_tf.pretrained.stored import StoredModel, find_vocabulary
from albert_tf.pretrained.weights import parts_of, set_weights, weights_of
from albert_tf.training.run_files import CHECKPOINTS, CONFIG_FILE, MANIFEST_FILE
from albert_tf.training.weights import find_checkpoint, load_weights
from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest
from data_prep.files import read_json_object
from data_prep.tokenizers.vocabulary import Vocabulary

MODEL_FILE = "model.keras"
FACTS_FILE = (
    "pretrained.json"  # what a .keras file cannot say: which parts are trained, and of the vocabulary
)
RESULTS_FILE = "results.json"  # of a fine-tuning run
_PRETRAINER = "albert_tf>AlbertPretrainer"
_FINETUNED = tuple(
    f"albert_tf>{name}"
    for name in (
        "TextClassifier",
        "TextRegressor",
        "QuestionAnswering",
        "MultipleChoice",
        "TokenClassifier",
    )
)


def is_run(path: Path) -> bool:
    """Whether a path is the folder of a run, or a checkpoint in one."""
    if path.is_dir():
        return (path / CHECKPOINTS).is_dir()
    has_index = path.with_name(f"{path.name}.index").exists()
    return has_index and path.parent.name == CHECKPOINTS and (path.parent.parent / CONFIG_FILE).exists()


def read_run(path: Path, run: Path) -> StoredModel:
    """Reads the newest checkpoint of a run, or the one that `path` names.

    Raises:
      InputError: there is no checkpoint, or it is of another model than the run's configuration.
    """
    config = AlbertConfig.from_json_file(run / CONFIG_FILE)
    prefix = Path(find_checkpoint(path))
    size = sum(file.stat().st_size for file in prefix.parent.glob(f"{prefix.name}.data-*"))
    check_size(config, size, prefix)
    model = AlbertPretrainer(config)
    load_weights(model, prefix)
    manifest = run / MANIFEST_FILE
    lower = Manifest.read(manifest).settings.do_lower_case if manifest.exists() else True
    vocabulary = find_vocabulary(run, ["*.model"], "vocab.txt", lower)
    return StoredModel("run", prefix, config, weights_of(model), vocabulary)


def read_keras(path: Path) -> StoredModel:
    """Reads a .keras file of an `AlbertPretrainer`, or the encoder of a fine-tuned model.

    Configuration and weights alone are read, and no other class is ever made.

    Raises:
      InputError: the file is damaged or of another model.
    """
    description = described(path)
    kind, config = description.get("registered_name"), description.get("config", {})
    if kind == _PRETRAINER:
        return _read_pretrainer(path, config.get("config", {}))
    if kind in _FINETUNED:
        return _read_finetuned(path, config)
    raise InputError(f"{path} must hold a model of albert_tf. Received {kind or 'no name of a class'}.")


def _read_pretrainer(path: Path, config: dict) -> StoredModel:
    folder, model = path.parent, _build(config, path)
    _load(model, path)
    facts = read_json_object(folder / FACTS_FILE) if (folder / FACTS_FILE).exists() else {}
    parts = facts.get("parts", OPTIONAL_PARTS)
    lower = bool(facts.get("do_lower_case", True))
    vocabulary = find_vocabulary(folder, ["*.model"], "vocab.txt", lower)
    return StoredModel("keras", path, model.config, _of_parts(model, parts), vocabulary)


def _read_finetuned(path: Path, config: dict) -> StoredModel:
    """The encoder, as a start for another task, and the vocabulary, which is in the configuration."""
    model = _build(config.get("encoder", {}).get("config", {}), path)
    _load(_EncoderAlone(model.encoder), path)
    described = (config.get("preprocessor") or {}).get("config")
    vocabulary = None
    if described:
        content = base64.b64decode(described["content"])
        vocabulary = Vocabulary(described["kind"], content, described["do_lower_case"])
    note = "the encoder of a fine-tuned model; its head was left out"
    return StoredModel("keras", path, model.config, _of_parts(model, ["pooler"]), vocabulary, (note,))


class _EncoderAlone(keras.Model):
    """A model with an encoder under the name that task models have it under."""

    def __init__(self, encoder: AlbertEncoder):
        super().__init__()
        self.encoder = encoder
        self.built = True


def best_seed(folder: Path) -> Path | None:
    """The folder of the best seed of a fine-tuning run; None where `folder` is none."""
    if not (folder / RESULTS_FILE).is_file():
        return None
    best = read_json_object(folder / RESULTS_FILE).get("best_seed")
    return None if best is None else folder / f"seed_{best}"


def _of_parts(model: AlbertPretrainer, parts: Sequence[str]) -> dict[str, np.ndarray]:
    """The weights of the encoder and of these optional parts."""
    return {
        name: array
        for name, array in weights_of(model).items()
        if name.split("/")[0] in parts or name.split("/")[0] not in OPTIONAL_PARTS
    }


def _load(model: keras.Model, path: Path) -> None:
    """Sets a model's weights to those of a .keras file."""
    with zipfile.ZipFile(path) as archive:
        weights = archive.read(WEIGHTS_FILE)
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary, WEIGHTS_FILE)
        file.write_bytes(weights)
        try:
            model.load_weights(file)
        except (ValueError, KeyError, OSError) as error:
            raise InputError(f"{path} does not fit its configuration: {str(error).splitlines()[0]}") from None


def write_keras(stored: StoredModel, folder: Path) -> list[str]:
    """Writes model.keras, an `AlbertPretrainer` for `keras.models.load_model`, and what belongs to it."""
    model = build_model(stored, seed=0)
    model.save(folder / MODEL_FILE)
    stored.config.to_json_file(folder / CONFIG_FILE)
    if stored.vocabulary:
        stored.vocabulary.save(folder)
    write_facts(stored, folder)
    if not stored.missing:
        return []
    return [f"untrained in {MODEL_FILE}, as {FACTS_FILE} says: {', '.join(stored.missing)}"]


def write_facts(stored: StoredModel, folder: Path) -> Path:
    """Writes what neither configuration nor weights say; returns the path."""
    facts: dict = {"parts": parts_of(stored.weights)}
    if stored.vocabulary:
        facts["do_lower_case"] = stored.vocabulary.do_lower_case
    path = folder / FACTS_FILE
    path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return path


def build_model(stored: StoredModel, seed: int | None = None) -> AlbertPretrainer:
    """The model with the stored weights; parts that the files do not hold have fresh ones, by `seed`."""
    model = AlbertPretrainer(stored.config, seed=seed)
    set_weights(model, stored.weights)
    return model


def _build(shape: dict, path: Path) -> AlbertPretrainer:
    """A model of a shape that a .keras file describes."""
    config = AlbertConfig.from_dict(shape.get("config", shape))
    check_size(config, path.stat().st_size, path)
    return AlbertPretrainer(config)
