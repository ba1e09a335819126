"""The folder of a fine-tuning run, and of one of its seeds.

OUTPUT_DIR/results.json and for each seed OUTPUT_DIR/seed_0/: settings.json, the vocabulary, metrics.jsonl,
tensorboard/, checkpoints/ while it trains, model.keras (the best weights), training.json once it is trained,
results.json, dev_... and test_... (predictions).
"""

import dataclasses
import json
import shutil
from pathlib import Path

import keras

from albert_tf.finetuning.model_file import MODEL_FILE
from albert_tf.finetuning.settings import FIXED, FinetuningSettings
from albert_tf.finetuning.task_model import TaskModel
from albert_tf.finetuning.task_models import TASK_MODELS
from albert_tf.training.run_files import CHECKPOINTS, check_same_run, settings_json
from data_prep.errors import InputError
from data_prep.files import write_text
from data_prep.tokenizers.vocabulary import Vocabulary

SETTINGS_FILE = "settings.json"
RESULTS_FILE = "results.json"
_TRAINED_FILE = "training.json"
_LONGEST_REASON = 200  # Keras' may hold the whole configuration


def seed_folder(output_dir: str | Path, seed: int) -> Path:
    """Where the run of one seed is."""
    return Path(output_dir) / f"seed_{seed}"


def check_folder(settings: FinetuningSettings, seed: int) -> None:
    """Raises InputError where the folder of a seed holds another run than the resolved settings ask for."""
    output, run = Path(settings.output_dir), seed_folder(settings.output_dir, seed)
    for path in (output, run):
        if path.exists() and not path.is_dir():
            raise InputError(f"--output_dir must be a folder. Received {path}, which is a file.")
    if (run / SETTINGS_FILE).exists():
        check_same_run(settings, run / SETTINGS_FILE, FIXED)


def open_run(settings: FinetuningSettings, vocabulary: Vocabulary, seed: int) -> Path:
    """Makes the folder of a seed, with the resolved settings and the vocabulary."""
    run = seed_folder(settings.output_dir, seed)
    run.mkdir(parents=True, exist_ok=True)
    write_text(run / SETTINGS_FILE, settings_json(dataclasses.replace(settings, seed=seed)))
    vocabulary.save(run)
    return run


def is_trained(run: Path) -> bool:
    """Whether a seed's training is over."""
    return (run / _TRAINED_FILE).exists()


def finish_training(run: Path, facts: dict) -> None:
    """Notes that a seed's training is over, and deletes what it would have gone on from."""
    write_text(run / _TRAINED_FILE, json.dumps(facts, indent=2) + "\n")
    shutil.rmtree(run / CHECKPOINTS, ignore_errors=True)


def training_facts(run: Path) -> dict:
    """What `finish_training` noted."""
    return json.loads((run / _TRAINED_FILE).read_text(encoding="utf-8"))


def write_seed_results(run: Path, result: dict) -> None:
    """Keeps what a seed came to."""
    write_text(run / RESULTS_FILE, json.dumps(result, indent=2) + "\n")


def seed_results(run: Path) -> dict:
    """What `write_seed_results` kept; empty if nothing."""
    path = run / RESULTS_FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def load_finetuned(run: Path) -> TaskModel:
    """The best model of a seed; call it under the strategy's scope.

    Raises:
      InputError: there is none, or its file is damaged.
    """
    path = run / MODEL_FILE
    if not path.exists():
        raise InputError(
            f"The folder of a fine-tuned model holds {MODEL_FILE}. Received {run}, which does not; train with "
            "--do_train first."
        )
    try:
        model = keras.saving.load_model(path, compile=False)
    except (ValueError, OSError, KeyError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:_LONGEST_REASON]
        raise InputError(f"{path} is not a whole model: {reason}") from None
    if not isinstance(model, TaskModel) or type(model) not in TASK_MODELS.values():
        raise InputError(f"{path} must hold a fine-tuned model. Received a {type(model).__name__}.")
    return model
