"""The folder of a pretraining run.

It holds albert_config.json, settings.json, data_manifest.json, the vocabulary if known, checkpoints/,
metrics.jsonl and tensorboard/.
"""

import shutil
from pathlib import Path

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.settings import FIXED, PretrainingSettings
from albert_tf.training.run_files import (
    CONFIG_FILE,
    MANIFEST_FILE,
    SETTINGS_FILE,
    check_same_run,
    settings_json,
)
from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest
from data_prep.files import write_text, written_aside
from data_prep.tokenizers.vocabulary import Vocabulary


def write_run_folder(
    settings: PretrainingSettings, config: AlbertConfig, vocabulary: Path | None, manifest: Manifest | None
) -> Path:
    """Creates the run's folder, or checks that an existing one holds the same run; returns it.

    Args:
      settings: written as settings.json.
      config: written as albert_config.json.
      vocabulary: the examples' vocabulary, copied to spm.model or vocab.txt for export.
      manifest: the examples' manifest, copied to data_manifest.json.

    Raises:
      InputError: the folder holds a run with another configuration or other fixed settings.
    """
    run = Path(settings.output_dir)
    if run.exists() and not run.is_dir():
        raise InputError(f"--output_dir must be a folder. Received {run}, which is a file.")
    if (run / CONFIG_FILE).exists():
        _check_same_config(run, config)
        if (run / SETTINGS_FILE).exists():
            check_same_run(settings, run / SETTINGS_FILE, FIXED)
    run.mkdir(parents=True, exist_ok=True)
    config.to_json_file(run / CONFIG_FILE)
    write_text(run / SETTINGS_FILE, settings_json(settings))
    if vocabulary:
        Vocabulary.read(vocabulary).save(run)
    if manifest and manifest.path:
        with written_aside(run / MANIFEST_FILE) as aside:
            shutil.copyfile(manifest.path, aside)
    return run


def _check_same_config(run: Path, config: AlbertConfig) -> None:
    there, given = AlbertConfig.from_json_file(run / CONFIG_FILE).to_dict(), config.to_dict()
    different = [
        f"{name} is {there[name]} there, received {given[name]}"
        for name in given
        if there[name] != given[name]
    ]
    if different:
        raise InputError(
            f"{run} holds a run with another configuration: {'; '.join(different)}. Use the same "
            "configuration to resume it, or another --output_dir for a new run."
        )
