"""The folder of a pretraining run.

It holds albert_config.json, settings.json, data_manifest.json, the vocabulary if known, checkpoints/,
best.json, metrics.jsonl and tensorboard/.
"""

import dataclasses
import shutil
from pathlib import Path

from albert_tf.checkpoints.run_files import (
    MANIFEST_FILE,
    SETTINGS_FILE,
    check_same_run,
)
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.pretraining.flags import (
    FIXED,
    PUBLISHED_RATES,
    PretrainingFlags,
    PretrainingPlan,
)
from albert_tf.training.device_flags import settings_json
from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest
from data_prep.files import read_json_object, write_text, written_aside
from data_prep.tokenizers.vocabulary import Vocabulary

_FIXED_OF_A_PHASE = (
    "input_file",
    "train_batch_size",
    "max_seq_length",
    "max_predictions_per_seq",
    "start_step",
)


def write_run_folder(
    settings: PretrainingPlan,
    config: AlbertConfig,
    vocabulary: Vocabulary | None,
    manifest: Manifest | None,
) -> Path:
    """Creates the run's folder, or checks that an existing one holds the same run; returns it.

    An evaluation alone does not change the files of a run.

    Args:
      settings: written as settings.json.
      config: written as albert_config.json.
      vocabulary: the examples' vocabulary, copied to spm.model or vocab.txt for export.
      manifest: the examples' manifest, copied to data_manifest.json.

    Raises:
      InputError: the folder holds a run with another configuration, vocabulary or other fixed settings.
    """
    run = Path(settings.output_dir)
    if (run / CONFIG_FILE).exists():
        _check_same_config(run, config)
        _check_same_vocabulary(run, manifest)
        if (run / SETTINGS_FILE).exists():
            if not settings.do_train:
                return run  # an evaluation needs none of the run's flags, and keeps them
            _check_same_phases(run, settings)
            # If --init_checkpoint gave the position table, no phase tiles it.
            more = ("init_checkpoint",) if len(settings.phases) > 1 else ()
            check_same_run(settings, run / SETTINGS_FILE, (*FIXED, *more))
    run.mkdir(parents=True, exist_ok=True)
    config.to_json_file(run / CONFIG_FILE)
    write_text(run / SETTINGS_FILE, settings_json(settings))
    if vocabulary:
        vocabulary.save(run)
    if manifest and manifest.path:
        with written_aside(run / MANIFEST_FILE) as aside:
            shutil.copyfile(manifest.path, aside)
    return run


def check_no_finetuning_run(output_dir: Path) -> None:
    """Raises InputError if a folder holds a fine-tuning run, whose files have the same names."""
    if any(output_dir.glob("seed_*")):
        raise InputError(
            f"--output_dir must be a new folder or a run of `albert pretrain`. Received {output_dir}, a run of "
            "`albert finetune`; name another one."
        )


def notes_on_other_files(settings: PretrainingPlan, run: Path) -> list[str]:
    """Whether phases have other training files than when the run in a folder last started, by their sizes."""
    stored = run / SETTINGS_FILE
    if not settings.do_train or not stored.is_file():
        return []
    changed = []
    for before, now in zip(read_json_object(stored).get("phases") or [], settings.phases, strict=False):
        sizes = before.get("num_examples"), before.get("num_bytes")
        # Runs of earlier versions did not record them.
        if None not in sizes and sizes != (now.num_examples, now.num_bytes):
            changed.append(
                f"warning: {now.input_file} held {sizes[0]:,} examples in {sizes[1]:,} bytes when this run last "
                f"started, and now holds {now.num_examples:,} in {now.num_bytes:,}; the run goes on with the new "
                "ones, at the position that it has reached; use another --output_dir to start over"
            )
    return changed


def with_optimizer_of_run(settings: PretrainingFlags) -> PretrainingFlags:
    """For an evaluation alone, the flags with the optimizer whose moments are in the run's checkpoints."""
    stored = Path(settings.output_dir) / SETTINGS_FILE
    if settings.do_train or not stored.is_file():
        return settings
    optimizer = read_json_object(stored).get("optimizer")
    return dataclasses.replace(settings, optimizer=optimizer) if optimizer in PUBLISHED_RATES else settings


def _check_same_vocabulary(run: Path, manifest: Manifest | None) -> None:
    """Examples that are trained on or evaluated now must have the ids of the run's."""
    if manifest is None or not (run / MANIFEST_FILE).exists():
        return
    there, given = Manifest.read(run / MANIFEST_FILE).vocabulary, manifest.vocabulary
    if there.sha256 != given.sha256:
        raise InputError(
            f"Examples must be prepared with the vocabulary of the run, {there.file}. Received some that were "
            f"prepared with {given.file}, which has other content; prepare them again, or name another "
            "--output_dir."
        )


def _check_same_phases(run: Path, settings: PretrainingPlan) -> None:
    """All phases must stay; only the steps of the last one may change."""
    # Runs of earlier versions are one phase.
    there = read_json_object(run / SETTINGS_FILE).get("phases") or [{}]
    given = [dataclasses.asdict(phase) for phase in settings.phases]
    if len(there) == len(given) == 1 and not settings.phase:
        return  # the flags themselves are compared
    different = [
        f"{name} of phase {number} is {before.get(name)} there, received {now[name]}"
        for number, (before, now) in enumerate(zip(there, given, strict=False), start=1)
        for name in _FIXED_OF_A_PHASE
        if before.get(name) != now[name]
    ]
    if len(there) != len(given):
        different = [f"{len(there)} there, received {len(given)}"]
    if different:
        raise InputError(
            f"{run} holds a run with other phases: {'; '.join(different)}. Use the same flags to resume it, or "
            "another --output_dir for a new run."
        )


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
