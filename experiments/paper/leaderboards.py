"""Tables 9 and 10 from finished fine-tuning runs: medians of single models, and the ensemble of each task's runs.

folders --read_runs--> runs --report_runs--> metrics of runs and ensembles --> a row for each checkpoint, and one
of the ensemble
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.run_files import SETTINGS_FILE
from albert_tf.tasks.benchmarks.ensemble import report_runs
from albert_tf.tasks.kind import Task
from albert_tf.tasks.probabilities import probabilities_file
from albert_tf.tasks.scores import GLUE_TASKS, glue_average, task_score
from albert_tf.tasks.task import BENCHMARKS, find_task
from benchmarks.report import describe_machine
from data_prep.errors import InputError
from data_prep.files import read_json_object
from experiments.paper import numbers
from experiments.paper.results import Column, ResultRow, Results

_GLUE = {"sst-2": "SST", "sts-b": "STS", "cola": "CoLA", "average": "Avg"}
_GLUE_UNITS = {"cola": "Matthews", "sts-b": "Pearson"}
_READING = {
    "squad1_f1": ("SQuAD 1.1 dev", "F1"),
    "squad1_em": ("SQuAD 1.1 dev", "EM"),
    "squad2_f1": ("SQuAD 2.0 dev", "F1"),
    "squad2_em": ("SQuAD 2.0 dev", "EM"),
    "race": ("RACE test", ""),
    "race_middle": ("RACE test", "middle"),
    "race_high": ("RACE test", "high"),
}


@dataclass(frozen=True)
class Leaderboard:
    """One of the two tables.

    Attributes:
      name: table9 or table10.
      title: a heading.
      tasks: the tasks of its runs.
      columns: of the table.
      single: the paper's single models: name -> a value for each column.
      ensembles: the paper's ensembles, likewise.
      notes: sentences on the columns.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    columns: tuple[Column, ...]
    single: Mapping[str, Sequence[float]]
    ensembles: Mapping[str, Sequence[float]]
    notes: tuple[str, ...]


LEADERBOARDS = {
    "table9": Leaderboard(
        "table9",
        "GLUE",
        GLUE_TASKS,
        tuple(
            Column(name, _GLUE.get(name, name.upper()), _GLUE_UNITS.get(name, ""), 1) for name in numbers.GLUE
        ),
        numbers.GLUE_SINGLE,
        numbers.GLUE_ENSEMBLES,
        (
            "Accuracy in percent unless another metric is named; MNLI is the mean of matched and mismatched.",
            "Our scores and those of the paper's single models are on the dev sets; those of the paper's "
            "ensembles are on the test sets, from GLUE's server.",
            "Avg is GLUE's score, in which a task with two metrics counts with their mean.",
        ),
    ),
    "table10": Leaderboard(
        "table10",
        "SQuAD and RACE",
        ("squad1.1", "squad2.0", "race"),
        tuple(Column(name, *heading, decimals=1) for name, heading in _READING.items()),
        numbers.READING_SINGLE,
        numbers.READING_ENSEMBLES,
        (
            "RACE is accuracy in percent; SQuAD 2.0 is at the best threshold of the null odds, as in the "
            "original.",
        ),
    ),
}


@dataclass(frozen=True)
class LeaderboardSettings:
    """The flags.

    Attributes:
      output: folder of the laboratory; the results are written to its folder table9 or table10.
      gold: SQuAD's files with the correct answers, as squad1.1=FILE or squad2.0=FILE. Default: the files that the
        runs were evaluated on, at their recorded paths.
    """

    output: Path
    gold: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FinetunedRun:
    """A seed of `albert finetune`, in `folder`; `row` is the given name or that of the checkpoint."""

    row: str
    folder: Path
    task: Task
    settings: Mapping[str, Any]


def run_leaderboard(
    board: Leaderboard, runs: Sequence[str], settings: LeaderboardSettings, command: str = ""
) -> Results:
    """Writes OUTPUT/NAME from the predictions that runs have saved; runs no model.

    Args:
      board: one of LEADERBOARDS.
      runs: FOLDER or NAME=FOLDER of `albert finetune`; a folder of several seeds stands for all of them. Runs of
        one name, or from one checkpoint, are a row.
      settings: the flags.
      command: the command line.

    Raises:
      InputError: a folder is not a run of these tasks, or runs of one task predicted different examples. Nothing
        has been written then.
    """
    found = read_runs(runs, board.tasks)
    gold = dict(argument.split("=", 1) for argument in settings.gold if "=" in argument)
    singles: dict[str, dict[str, list[float]]] = {}
    ensembles: dict[str, Mapping[str, float]] = {}
    notes = [*board.notes, "Our single models are medians over the runs, as the paper's ALBERT."]
    for task in board.tasks:
        of_task = [run for run in found if run.task.name == task]
        if not of_task:
            continue
        role = "dev"
        if task == "race" and all(probabilities_file(run.folder, "test").exists() for run in of_task):
            role = "test"
        elif task == "race":
            notes.append(
                "Our scores on RACE are on the dev set, because runs have not predicted the test set."
            )
        answers = _gold_of(of_task, gold.get(task)) if task.startswith("squad") else None
        report = report_runs(of_task[0].task, [run.folder for run in of_task], role, gold=answers)
        for run in of_task:
            for column, value in scores(task, report["members"][str(run.folder)]).items():
                singles.setdefault(run.row, {}).setdefault(column, []).append(value)
        if len(of_task) > 1:
            ensembles[task] = report["ensemble"]
    ensemble = {
        c: [value] for task, metrics in ensembles.items() for c, value in scores(task, metrics).items()
    }
    if ensembles.keys() >= set(GLUE_TASKS):
        ensemble["average"] = [glue_average(ensembles)]
    rows = [
        *_paper_rows(board, board.single, "{} (paper)"),
        *(
            ResultRow(
                f"single/{name}", f"{name} (ours)", {}, {c: [statistics.median(v)] for c, v in row.items()}
            )
            for name, row in singles.items()
        ),
        *_paper_rows(board, board.ensembles, "{} ensemble (paper)"),
        *([ResultRow("ensemble", "Ensemble of each task's runs (ours)", {}, ensemble)] if ensemble else []),
    ]
    used = {column for row in rows for column in (*row.paper, *row.ours)}
    results = Results(
        experiment=board.name,
        title=board.title,
        paper=board.name.replace("table", "Table "),
        question="How good are fine-tuned models, alone and as an ensemble?",
        scale="",
        seeds=[],
        command=command,
        settings={"runs": [{"row": run.row, "folder": str(run.folder)} for run in found]},
        environment=describe_machine(),
        columns=[column for column in board.columns if column.name in used],
        rows=rows,
        notes=notes,
    )
    results.write(settings.output / board.name)
    return results


def read_runs(arguments: Sequence[str], tasks: Sequence[str]) -> list[FinetunedRun]:
    """Reads the settings of runs and of their seeds.

    Raises:
      InputError: there is no run, a folder is not a run, or a run is of another task.
    """
    runs = []
    for argument in arguments:
        name, equals, path = argument.partition("=")
        folder = Path(path) if equals else Path(argument)
        seeds = sorted(folder.glob("seed_*"), key=lambda path: (len(path.name), path.name))
        for each in seeds or [folder]:
            if not (each / SETTINGS_FILE).exists():
                raise InputError(
                    "A run is the --output_dir of `albert finetune` or one of its folders seed_0, seed_1, ... "
                    f"Received {each}, which has no {SETTINGS_FILE}."
                )
            settings = read_json_object(each / SETTINGS_FILE)
            if settings.get("task") not in tasks:
                raise InputError(
                    f"The tasks of this table are {', '.join(tasks)}. Received {each}, a run of "
                    f"{settings.get('task')}."
                )
            checkpoint = Path(settings.get("init_checkpoint") or "no checkpoint").name
            row = name if equals else checkpoint.removesuffix(".tar.gz")
            runs.append(FinetunedRun(row, each, find_task(settings["task"]), settings))
    if not runs:
        raise InputError("Name the folder of at least one fine-tuning run. Received none.")
    return runs


def _gold_of(runs: Sequence[FinetunedRun], given: str | None) -> Path:
    """The file with the correct answers: the given one, or that of the runs at its recorded path."""
    settings = runs[0].settings
    path = given or settings.get("dev_file") or settings.get("data_dir")
    if not path or not Path(path).exists():
        task = runs[0].task.name
        raise InputError(
            f"Name the file with the answers of {task}, --gold={task}=FILE. Received {path}, which is not there."
        )
    return Path(path)


def scores(task: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """A task's metrics as columns, in percent.

    >>> scores("race", {"accuracy": 0.9, "accuracy_high": 0.9})  # of a run on one part alone
    {'race_high': 90.0}
    """
    if task == "race":
        parts = sorted({"accuracy_middle", "accuracy_high"} & metrics.keys())
        names = parts if len(parts) == 1 else ["accuracy", *parts]
        return {name.replace("accuracy", "race"): 100 * metrics[name] for name in names}
    if task == "squad1.1":
        return {"squad1_f1": metrics["f1"], "squad1_em": metrics["exact_match"]}
    if task == "squad2.0":
        return {"squad2_f1": metrics["best_f1"], "squad2_em": metrics["best_exact"]}
    if task == "mnli":
        return {"mnli": task_score(BENCHMARKS["mnli"], metrics)}
    return {task: 100 * metrics[{"cola": "matthews", "sts-b": "pearson"}.get(task, "accuracy")]}


def _paper_rows(board: Leaderboard, rows: Mapping[str, Sequence[float]], title: str) -> list[ResultRow]:
    columns = [column.name for column in board.columns]
    return [
        ResultRow(f"paper/{title.format(name)}", title.format(name), dict(zip(columns, values, strict=False)))
        for name, values in rows.items()  # single models have no values in the last columns
    ]
