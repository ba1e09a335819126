"""Finished fine-tuning runs and what they, and their ensembles, come to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.evaluation.ensemble_report import WHOLE, report_runs
from albert_tf.evaluation.probability_files import probabilities_file
from albert_tf.lab.labels import named, short_names
from data_prep.errors import InputError
from data_prep.files import read_json
from data_prep.tasks.squad import squad_file
from data_prep.tasks.task import Task, find_task

SETTINGS_FILE = "settings.json"
RESULTS_FILE = "results.json"


@dataclass(frozen=True)
class FinetunedRun:
    """One seed of `albert finetune`.

    Attributes:
      row: what it is called in the table: the given name, or the checkpoint that it started from.
      folder: with its predictions.
      task: that it was trained on.
      settings: of the run, as it keeps them.
    """

    row: str
    folder: Path
    task: Task
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class TaskReport:
    """What the runs of one task came to.

    Attributes:
      task: theirs.
      role: "dev" or "test": what was predicted.
      members: row -> the metrics of each of its runs.
      ensemble: metrics of the mean of all runs' predictions; empty where they cannot be known.
    """

    task: Task
    role: str
    members: Mapping[str, Sequence[Mapping[str, float]]]
    ensemble: Mapping[str, float]


def read_runs(arguments: Sequence[str], tasks: Iterable[str]) -> list[FinetunedRun]:
    """Reads the settings of runs.

    Args:
      arguments: PATH or NAME=PATH: folders of runs, or of one of their seeds.
      tasks: the names that may come.

    Raises:
      InputError: no run, a folder that is none, one that comes twice, or a run of another task.
    """
    tasks = tuple(tasks)
    given = named(arguments)
    if not given:
        raise InputError("Name the folders of one fine-tuning run or more. Received none.")
    settings = [_settings(Path(path)) for _, path in given]
    checkpoints = [str(each.get("init_checkpoint") or "no checkpoint") for each in settings]
    short = short_names(checkpoints)
    runs = [
        FinetunedRun(name or short[checkpoint], Path(path), find_task(str(each["task"])), each)
        for (name, path), checkpoint, each in zip(given, checkpoints, settings, strict=True)
    ]
    folders: set[Path] = set()
    for run in runs:
        if run.task.name not in tasks:
            raise InputError(
                f"The runs of this table are of {', '.join(tasks)}. Received {run.folder}, which is of "
                f"{run.task.name}."
            )
        if run.folder.resolve() in folders:
            raise InputError(f"A run counts once. Received {run.folder} twice.")
        folders.add(run.folder.resolve())
    return runs


def task_report(
    runs: Sequence[FinetunedRun], gold: Path | None = None, *, test_is_known: bool = False
) -> TaskReport:
    """The metrics of the runs of one task, and of their ensemble, from the predictions that they kept.

    Args:
      runs: of one task.
      gold: SQuAD's JSON file with the right answers. Without it the runs' own metrics are taken, and there are
        none of the ensemble.
      test_is_known: take the test set where all runs have predicted it, as of RACE, whose answers are public.

    Raises:
      InputError: a run has no predictions, or they are of different examples.
    """
    task = runs[0].task
    if task.kind == "question_answering" and gold is None:
        return TaskReport(task, "dev", _by_row(runs, [_own_metrics(run) for run in runs]), {})
    role = "test" if test_is_known and all(_has_test(run) for run in runs) else "dev"
    report = report_runs(task, [run.folder for run in runs], role, gold=gold)
    metrics = list(report["members"].values())
    if not all(metrics):
        raise InputError(
            f"The {role} set of {task.name} must have right answers. Received runs that predicted one without."
        )
    return TaskReport(task, role, _by_row(runs, metrics), report[WHOLE])


def gold_of(runs: Sequence[FinetunedRun], given: Path | None) -> Path | None:
    """SQuAD's file with the right answers: the given one, or what the runs were evaluated on if it is there."""
    if given is not None:
        return given
    for run in runs:
        for key in ("dev_file", "data_dir"):
            file = _dev_file(run.task, str(run.settings.get(key) or ""))
            if file is not None:
                return file
    return None


def _dev_file(task: Task, path: str) -> Path | None:
    """A plain JSON file at a path, or in the folder there."""
    file = Path(path)
    if path and file.is_dir():
        try:
            file = squad_file(task, file, "dev")
        except InputError:
            return None
    return file if file.is_file() and file.suffix == ".json" else None


def _settings(folder: Path) -> dict[str, Any]:
    if not (folder / SETTINGS_FILE).exists():
        raise InputError(
            f"A run is a folder of `albert finetune`, with seed_0 and so on inside, or one of these. Received "
            f"{folder}, which has no {SETTINGS_FILE}."
        )
    settings = read_json(folder / SETTINGS_FILE)
    if not isinstance(settings, dict) or "task" not in settings:
        raise InputError(f"{folder / SETTINGS_FILE} must be of a fine-tuning run. It names no task.")
    return settings


def _own_metrics(run: FinetunedRun) -> Mapping[str, float]:
    """What the run itself noted of its dev set."""
    path = run.folder / RESULTS_FILE
    metrics = read_json(path).get("dev") if path.exists() else None
    if not metrics:
        raise InputError(
            f"A finished run has metrics of its dev set in {RESULTS_FILE}. Received {run.folder}, which has none; "
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
