"""The folder of a pretraining run: written, or checked to hold the same run.

It holds albert_config.json, settings.json, data_manifest.json, the vocabulary if known, checkpoints/,
best.json, metrics.jsonl and tensorboard/.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.run_files import (
    MANIFEST_FILE,
    SETTINGS_FILE,
    check_same_flags,
    check_same_run,
    read_metrics,
)
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.pretraining.phases import Phase
from albert_tf.pretraining.plan import PretrainingPlan
from albert_tf.training.device_flags import settings_json
from albert_tf.training.held_out import HeldOut
from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest
from data_prep.files import as_record, read_json_object, write_text, written_aside
from data_prep.storage.paths import local_copy

# A run keeps these: with another order of data or other mathematics it would be another run.
_FIXED = (
    "input_file",
    "input_weights",
    "input_exponent",
    "train_batch_size",
    "max_seq_length",
    "max_predictions_per_seq",
    "optimizer",
    "seed",
)
_FIXED_OF_A_PHASE = (
    "input_file",
    "input_weights",
    "input_exponent",
    "train_batch_size",
    "max_seq_length",
    "max_predictions_per_seq",
    "start_step",
)


def write_run_folder(plan: PretrainingPlan) -> None:
    """Creates the run's folder, or checks that an existing one holds the same run.

    settings.json holds the plan, albert_config.json the model; the vocabulary and the manifest of the examples are
    copied for export. An evaluation alone does not change the files of a run.

    Raises:
      InputError: the folder holds a run with another configuration, vocabulary or other fixed flags.
    """
    run = plan.folder
    if (run / CONFIG_FILE).exists():
        earlier = AlbertConfig.from_json_file(run / CONFIG_FILE)
        check_same_run(run, "sizes", earlier.to_dict(), plan.config.to_dict())
        _check_same_vocabulary(run, plan.manifest)
        if (run / SETTINGS_FILE).exists():
            if not plan.do_train:
                return  # an evaluation leaves the run's settings.json as it is
            _check_same_phases(run, plan)
            # If --init_checkpoint gave the position table, no phase tiles it.
            more = ("init_checkpoint",) if len(plan.phases) > 1 else ()
            check_same_flags(plan, run / SETTINGS_FILE, (*_FIXED, *more))
    run.mkdir(parents=True, exist_ok=True)
    plan.config.to_json_file(run / CONFIG_FILE)
    write_text(run / SETTINGS_FILE, settings_json(plan))
    if plan.vocabulary:
        plan.vocabulary.save(run)
    if plan.manifest and plan.manifest.path:
        with written_aside(run / MANIFEST_FILE) as aside:
            shutil.copyfile(local_copy(plan.manifest.path), aside)


def notes_on_changes(plan: PretrainingPlan) -> Iterator[str]:
    """What is new since the run in the folder last started, although it stays the same run: a line each.

    Its evaluations, and its training files by their sizes.
    """
    run = plan.folder
    if not plan.do_train or not (run / SETTINGS_FILE).is_file():
        return
    stored, best = _read_stored(run), HeldOut(read_metrics(run), after=plan.phases[-1].start_step).best
    before = stored.phases[-1].eval_file, stored.max_eval_steps
    now = plan.phases[-1].eval_file, plan.max_eval_steps
    if best and not (plan.do_eval and plan.phases[-1].eval_file):
        yield (
            f"warning: this run is no longer evaluated, so commands that read {run} go on using the checkpoint "
            f"of step {best['step']}, the best one so far; give --do_eval and --eval_file, or name the checkpoint "
            "there"
        )
    elif best and before != now:
        yield (
            f"warning: this run was evaluated with --eval_file={before[0]} and --max_eval_steps={before[1]}, so "
            "its earlier held-out losses are not comparable with the next ones, and the best checkpoint may be "
            "the best on the earlier text; use another --output_dir to start over"
        )
    for earlier, phase in zip(stored.phases, plan.phases, strict=False):
        sizes = earlier.num_examples, earlier.num_bytes
        if sizes != (phase.num_examples, phase.num_bytes):
            yield (
                f"warning: {phase.input_file} held {sizes[0]:,} examples in {sizes[1]:,} bytes when this run last "
                f"started, and now holds {phase.num_examples:,} in {phase.num_bytes:,}; the run goes on with the "
                "new ones, at the position that it has reached; use another --output_dir to start over"
            )


@dataclass(frozen=True)
class _Stored:
    """What settings.json holds of the run as it last started."""

    phases: tuple[Phase, ...]
    max_eval_steps: int


def _read_stored(run: Path) -> _Stored:
    return as_record(_Stored, read_json_object(run / SETTINGS_FILE), run / SETTINGS_FILE)


def _check_same_vocabulary(run: Path, manifest: Manifest | None) -> None:
    """Examples that are trained on or evaluated now must have the ids of the run's."""
    if manifest is None or not (run / MANIFEST_FILE).exists():
        return
    stored, received = Manifest.read(run / MANIFEST_FILE).vocabulary, manifest.vocabulary
    if stored.sha256 != received.sha256:
        raise InputError(
            f"Examples must be prepared with the vocabulary of the run, {stored.file}. Received some that were "
            f"prepared with {received.file}, which has other content; prepare them again, or name another "
            "--output_dir."
        )


def _check_same_phases(run: Path, plan: PretrainingPlan) -> None:
    """All phases must stay; only the steps of the last one may change."""
    stored, received = _read_stored(run).phases, plan.phases
    if len(stored) == len(received) == 1 and not plan.phase:
        return  # the flags themselves are compared
    count = min(len(stored), len(received))

    def facts(phases: Sequence[Phase]) -> dict[str, Any]:
        fixed = {
            f"{name} of phase {number}": getattr(phase, name)
            for number, phase in enumerate(phases[:count], start=1)
            for name in _FIXED_OF_A_PHASE
        }
        return {"their number": len(phases), **fixed}

    check_same_run(run, "phases", facts(stored), facts(received))
