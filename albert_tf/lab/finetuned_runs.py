"""The metrics of finished fine-tuning runs and of their ensembles."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.run_files import RESULTS_FILE, SETTINGS_FILE
from albert_tf.lab.named_paths import short_names, split_names
from albert_tf.tasks.benchmarks.ensemble import report_runs
from albert_tf.tasks.benchmarks.squad import squad_file
from albert_tf.tasks.run_predictions import probabilities_file
from albert_tf.tasks.tables import table_suffix
from albert_tf.tasks.task import Task, find_task
from data_prep.errors import InputError
from data_prep.files import Number, as_record, read_json, read_json_object


@dataclass(frozen=True)
class FinetunedRun:
    """One seed of `albert finetune`.

    Attributes:
      row: the name of its row: the given name, or the checkpoint that it started from.
      folder: contains its predictions.
      task: the task that it was trained on.
      settings: the content of its settings.json.
    """

    row: str
    folder: Path
    task: Task
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class TaskReport:
    """The metrics of one task's runs.

    Attributes:
      task: the task.
      role: the predicted set: "dev" or "test".
      members: row -> the metrics of each of its runs.
      ensemble: the metrics of the mean of all runs' predictions; empty if they cannot be computed.
    """

    task: Task
    role: str
    members: Mapping[str, Sequence[Mapping[str, float]]]
    ensemble: Mapping[str, float]


def read_runs(arguments: Sequence[str], tasks: Iterable[str]) -> list[FinetunedRun]:
    """Reads the settings of runs.

    Args:
      arguments: PATH or NAME=PATH: folders of runs, or of one of their seeds.
      tasks: names of the accepted tasks.

    Raises:
      InputError: there is no run, a folder is not a run or is given twice, or a run is of another task.
    """
    tasks = tuple(tasks)
    given = split_names(arguments)
    if not given:
        raise InputError("Name the folder of at least one fine-tuning run. Received none.")
    settings = [_settings(Path(path)) for _, path in given]
    checkpoints = [(each.get("init_checkpoint") or "no checkpoint").rstrip("/") for each in settings]
    short = short_names(checkpoints)
    runs = [
        FinetunedRun(name or short[checkpoint], Path(path), find_task(str(each["task"])), each)
        for (name, path), checkpoint, each in zip(given, checkpoints, settings, strict=True)
    ]
    folders: set[Path] = set()
    for run in runs:
        if run.task.name not in tasks:
            raise InputError(
                f"The tasks of this table are {', '.join(tasks)}. Received {run.folder}, a run of {run.task.name}."
            )
        if run.folder.resolve() in folders:
            raise InputError(f"A run may be given only once. Received {run.folder} twice.")
        folders.add(run.folder.resolve())
    return runs


def task_report(
    runs: Sequence[FinetunedRun], gold: Path | None = None, *, test_is_known: bool = False
) -> TaskReport:
    """The metrics of one task's runs and of their ensemble, from the predictions that the runs have saved.

    Args:
      runs: runs of one task.
      gold: SQuAD's JSON file with the correct answers. Without it, members have the metrics that the runs have
        saved, and the ensemble has none.
      test_is_known: use the test set if all runs have predicted it, as for RACE, whose answers are public.

    Raises:
      InputError: a run has no predictions, or the runs predicted different examples.
    """
    task = runs[0].task
    if task.kind == "question_answering" and gold is None:
        return TaskReport(task, "dev", _by_row(runs, [_own_metrics(run) for run in runs]), {})
    role = "test" if test_is_known and all(_has_test(run) for run in runs) else "dev"
    report = report_runs(task, [run.folder for run in runs], role, gold=gold)
    metrics = list(report["members"].values())
    if not all(metrics):
        raise InputError(
            f"The {role} set of {task.name} must have correct answers. Received runs that predicted one without."
        )
    return TaskReport(task, role, _by_row(runs, metrics), report["ensemble"])


def gold_of(runs: Sequence[FinetunedRun], given: Path | None) -> Path | None:
    """SQuAD's file with the correct answers: the given one, or the runs' dev file at its recorded path."""
    if given is not None:
        return given
    for run in runs:
        for key in ("dev_file", "data_dir"):
            file = _dev_file(run.task, str(run.settings.get(key) or ""))
            if file is not None:
                return file
    return None


def _dev_file(task: Task, path: str) -> Path | None:
    """The JSON file at a path, or in the folder at the path; None without one."""
    file = Path(path)
    if path and file.is_dir():
        try:
            file = squad_file(task, file, "dev")
        except InputError:
            return None
    return file if file.is_file() and table_suffix(file) == ".json" else None


def _settings(folder: Path) -> dict[str, Any]:
    if not (folder / SETTINGS_FILE).exists():
        raise InputError(
            "A run is the --output_dir of `albert finetune` or one of its folders seed_0, seed_1, ... Received "
            f"{folder}, which has no {SETTINGS_FILE}."
        )
    settings = read_json_object(folder / SETTINGS_FILE)
    if not isinstance(settings.get("task"), str):
        raise InputError(f"{folder / SETTINGS_FILE} must belong to a fine-tuning run. It names no task.")
    as_record(_Start, settings, folder / SETTINGS_FILE)
    return settings


@dataclass(frozen=True)
class _Start:
    init_checkpoint: str | None = None


@dataclass(frozen=True)
class _Metrics:
    dev: Mapping[str, Number] | None = None


def _own_metrics(run: FinetunedRun) -> Mapping[str, float]:
    """The metrics on the dev set that the run has saved."""
    path = run.folder / RESULTS_FILE
    metrics = as_record(_Metrics, read_json(path), path).dev if path.exists() else None
    if not metrics:
        raise InputError(
            f"A run must have metrics on its dev set in {RESULTS_FILE}. Received {run.folder}, which has none; "
            "run it with --do_eval."
        )
    return metrics


def _has_test(run: FinetunedRun) -> bool:
    return all(probabilities_file(run.folder, split).exists() for split in run.task.splits["test"])


def _by_row(
    runs: Sequence[FinetunedRun], metrics: Sequence[Mapping[str, float]]
) -> dict[str, list[Mapping[str, float]]]:
    rows: dict[str, list[Mapping[str, float]]] = {}
    for run, of_run in zip(runs, metrics, strict=True):
        rows.setdefault(run.row, []).append(of_run)
    return rows
