"""Our own files: a run's checkpoints, what `albert convert --to=keras` writes, and fine-tuned models."""

import base64
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.pretrained.keras_files import WEIGHTS_FILE, check_size, read_description
from albert_tf.pretrained.names import OPTIONAL_PARTS
from albert_tf.pretrained.stored import StoredModel, find_vocabulary, read_optional_json
from albert_tf.pretrained.weights import weights_of
from albert_tf.training.run_files import CHECKPOINTS, CONFIG_FILE, MANIFEST_FILE, RESULTS_FILE, read_best_step
from albert_tf.training.weights import find_checkpoint, load_weights
from data_prep.errors import InputError, first_line
from data_prep.examples.manifest import Manifest
from data_prep.files import write_json
from data_prep.tokenizers.vocabulary import Vocabulary

MODEL_FILE = "model.keras"
_FACTS_FILE = "pretrained.json"  # which parts are trained, and whether the vocabulary lower-cases
_PRETRAINER = "albert_tf>AlbertPretrainer"
_TASK_MODELS = ("TextClassifier", "TextRegressor", "QuestionAnswering", "MultipleChoice", "TokenClassifier")


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
    run = path if path.is_dir() else path.parent.parent
    config = AlbertConfig.from_json_file(run / CONFIG_FILE)
    prefix = Path(find_checkpoint(path))
    size = sum(file.stat().st_size for file in prefix.parent.glob(f"{prefix.name}.data-*"))
    check_size(config, size, prefix)
    model = AlbertPretrainer(config)
    load_weights(model, prefix)
    manifest = run / MANIFEST_FILE
    lower = Manifest.read(manifest).settings.do_lower_case if manifest.exists() else True
    vocabulary = find_vocabulary(run, do_lower_case=lower)
    notes: tuple[str, ...] = ()
    if path.is_dir() and (best := read_best_step(run)) is not None:
        which = "the best on held-out text" if prefix.name == f"ckpt-{best}" else "the last one"
        notes = (
            f"these are the weights of {prefix.name}, {which}; to take others, name a checkpoint of the run",
        )
    return StoredModel("run", prefix, config, weights_of(model), vocabulary, notes)


def best_seed_folder(run: Path) -> Path | None:
    """The folder of the best seed of a fine-tuning run; None if `run` is not one."""
    best = read_optional_json(run / RESULTS_FILE).get("best_seed")
    return None if best is None else run / f"seed_{best}"


def read_keras(path: Path) -> StoredModel:
    """Reads a .keras file of an `AlbertPretrainer`, or the encoder of a fine-tuned model.

    Only the configuration and the weights are read; no class that the file names is created.

    Raises:
      InputError: the file is damaged or holds another model.
    """
    description = read_description(path)
    name, config = description.get("registered_name"), description.get("config", {})
    if name == _PRETRAINER:
        return _read_pretrainer(path, config.get("config", {}))
    if name in [f"albert_tf>{task_model}" for task_model in _TASK_MODELS]:
        return _read_finetuned(path, config)
    raise InputError(f"{path} must hold a model of albert_tf. Received {name or 'no name of a class'}.")


def write_keras(stored: StoredModel, folder: Path) -> list[str]:
    """Writes model.keras, an `AlbertPretrainer` for `keras.models.load_model`, and the files that belong to it."""
    stored.to_pretrainer(seed=0).save(folder / MODEL_FILE)
    stored.config.to_json_file(folder / CONFIG_FILE)
    if stored.vocabulary:
        stored.vocabulary.save(folder)
    write_facts(folder, stored.parts, stored.vocabulary)
    if not stored.missing:
        return []
    return [f"untrained in {MODEL_FILE}, according to {_FACTS_FILE}: {', '.join(stored.missing)}"]


def write_facts(folder: Path, parts: Sequence[str], vocabulary: Vocabulary | None) -> Path:
    """Writes what neither configuration nor weights express, for `read_facts`; returns the path."""
    facts: dict[str, Any] = {"parts": list(parts)}
    if vocabulary:
        facts["do_lower_case"] = vocabulary.do_lower_case
    write_json(folder / _FACTS_FILE, facts)
    return folder / _FACTS_FILE


def read_facts(folder: Path) -> tuple[Sequence[str], Vocabulary | None]:
    """The trained parts and the vocabulary of a folder with a file of `write_facts`; all parts without one."""
    facts = read_optional_json(folder / _FACTS_FILE)
    vocabulary = find_vocabulary(folder, do_lower_case=bool(facts.get("do_lower_case", True)))
    return facts.get("parts", OPTIONAL_PARTS), vocabulary


def _read_pretrainer(path: Path, shape: dict) -> StoredModel:
    model = _new_model(shape, path)
    _load_weights(model, path)
    parts, vocabulary = read_facts(path.parent)
    return StoredModel("keras", path, model.config, _select_parts(model, parts), vocabulary)


def _read_finetuned(path: Path, config: dict) -> StoredModel:
    """The encoder, as a start for another task, and the vocabulary, which the configuration holds."""
    model = _new_model(config.get("encoder", {}).get("config", {}), path)
    _load_weights(_TaskModelEncoder(model.encoder), path)
    preprocessor = (config.get("preprocessor") or {}).get("config")
    vocabulary = None
    if preprocessor:
        content = base64.b64decode(preprocessor["content"])
        vocabulary = Vocabulary(preprocessor["kind"], content, preprocessor["do_lower_case"])
    note = "the encoder of a fine-tuned model; its head was left out"
    return StoredModel("keras", path, model.config, _select_parts(model, ["pooler"]), vocabulary, (note,))


class _TaskModelEncoder(keras.Model):
    """An encoder under the attribute that all task models keep theirs in, so that their weights load into it."""

    def __init__(self, encoder: AlbertEncoder):
        super().__init__()
        self.encoder = encoder
        self.built = True


def _new_model(shape: dict, path: Path) -> AlbertPretrainer:
    """An untrained model of the shape that a .keras file describes."""
    config = AlbertConfig.from_dict(shape.get("config", shape))
    check_size(config, path.stat().st_size, path)
    return AlbertPretrainer(config)


def _load_weights(model: keras.Model, path: Path) -> None:
    """Sets a model's weights to those of a .keras file."""
    with tempfile.TemporaryDirectory() as temporary:
        with zipfile.ZipFile(path) as archive:
            file = archive.extract(WEIGHTS_FILE, temporary)
        try:
            model.load_weights(file)
        except (ValueError, KeyError, OSError) as error:
            raise InputError(f"{path} does not fit its configuration: {first_line(error)}") from None


def _select_parts(model: AlbertPretrainer, parts: Sequence[str]) -> dict[str, np.ndarray]:
    """The weights of the encoder and of the given optional parts."""
    others = set(OPTIONAL_PARTS) - set(parts)
    return {name: array for name, array in weights_of(model).items() if name.split("/")[0] not in others}
