"""Tables 9 and 10 from finished fine-tuning runs: medians of single models, and the ensemble.

folders --read_runs--> runs --task_report--> metrics of each task --> rows per checkpoint and of the ensemble
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.lab import paper
from albert_tf.lab.environment import describe_environment
from albert_tf.lab.finetuned_runs import FinetunedRun, TaskReport, gold_of, read_runs, task_report
from albert_tf.lab.results import Column, ResultRow, Results
from albert_tf.lab.tables import write_results
from albert_tf.tasks.scores import GLUE_TASKS, glue_average, task_score
from albert_tf.tasks.task import TASKS
from data_prep.errors import InputError

ENSEMBLE = "ensemble"
_KEPT_SETTINGS = (
    "init_checkpoint",
    "seed",
    "learning_rate",
    "train_batch_size",
    "num_train_steps",
    "max_seq_length",
    "high_only",
    "middle_only",
)
_MISSING_GOLD = (
    "The file that the runs of {task} were evaluated on is not at its recorded path, so single models have the "
    "metrics that the runs have saved, and there is no ensemble. Name the file with --gold={task}=FILE."
)
_GLUE_UNITS = {"cola": "Matthews", "sts-b": "Pearson"}
_GLUE_TITLES = {"sst-2": "SST", "sts-b": "STS", "cola": "CoLA", "average": "Avg"}
_NUMBERS: dict[str, Callable[[Mapping[str, float]], dict[str, float]]] = {
    "cola": lambda metrics: {"cola": 100 * metrics["matthews"]},
    "sts-b": lambda metrics: {"sts-b": 100 * metrics["pearson"]},
    "mnli": lambda metrics: {"mnli": task_score(TASKS["mnli"], metrics)},
    "squad1.1": lambda metrics: {"squad1_f1": metrics["f1"], "squad1_em": metrics["exact_match"]},
    "squad2.0": lambda metrics: {"squad2_f1": metrics["best_f1"], "squad2_em": metrics["best_exact"]},
}


@dataclass(frozen=True)
class Leaderboard:
    """One of the two tables.

    Attributes:
      name: table9 or table10.
      title: a heading.
      tasks: the tasks of its runs.
      columns: of the table.
      single: the paper's single models: name -> column -> value.
      ensembles: the paper's ensembles, likewise.
      ensemble_title: the title of their rows, with {} for the name.
      notes: sentences on the columns.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    columns: tuple[Column, ...]
    single: Mapping[str, Mapping[str, float]]
    ensembles: Mapping[str, Mapping[str, float]]
    ensemble_title: str
    notes: tuple[str, ...]


def _percent(name: str, title: str, unit: str = "") -> Column:
    return Column(name, title, unit, decimals=1)


def _named(rows: Mapping[str, Sequence[float]], columns: Sequence[str]) -> dict[str, dict[str, float]]:
    return {name: dict(zip(columns, values, strict=True)) for name, values in rows.items()}


TABLE_9 = Leaderboard(
    "table9",
    "GLUE",
    GLUE_TASKS,
    tuple(
        _percent(name, _GLUE_TITLES.get(name, name.upper()), _GLUE_UNITS.get(name, ""))
        for name in paper.GLUE_TEST
    ),
    _named(paper.GLUE_SINGLE, paper.GLUE),
    _named(paper.GLUE_ENSEMBLES, paper.GLUE_TEST),
    "{} ensemble, test (paper)",
    (
        "Accuracy in percent unless another metric is named; MNLI is the mean of matched and mismatched.",
        "Our scores and those of the paper's single models are on the dev sets; those of the paper's ensembles "
        "are on the test sets, from GLUE's server.",
        "Avg is GLUE's score, in which a task with two metrics counts with their mean.",
    ),
)
TABLE_10 = Leaderboard(
    "table10",
    "SQuAD and RACE",
    ("squad1.1", "squad2.0", "race"),
    (
        _percent("squad1_f1", "SQuAD 1.1 dev", "F1"),
        _percent("squad1_em", "SQuAD 1.1 dev", "EM"),
        _percent("squad2_f1", "SQuAD 2.0 dev", "F1"),
        _percent("squad2_em", "SQuAD 2.0 dev", "EM"),
        _percent("race", "RACE test"),
        _percent("race_middle", "RACE test", "middle"),
        _percent("race_high", "RACE test", "high"),
        _percent("race_dev", "RACE dev"),
        _percent("race_dev_middle", "RACE dev", "middle"),
        _percent("race_dev_high", "RACE dev", "high"),
    ),
    _named(paper.READING_SINGLE, paper.READING),
    _named(paper.READING_ENSEMBLES, paper.READING),
    "{} ensemble (paper)",
    (
        "RACE is accuracy in percent; SQuAD 2.0 is at the best threshold of the null odds, as in the original.",
        "Our scores on RACE are on the test set if all runs have predicted it, otherwise on the dev set.",
    ),
)


def leaderboard(
    board: Leaderboard,
    runs: Sequence[str],
    output: Path,
    *,
    gold: Mapping[str, Path] | None = None,
    command: str = "",
) -> Results:
    """Writes OUTPUT/NAME with results.json and results.md from the runs' predictions; runs no model.

    Args:
      board: TABLE_9 or TABLE_10.
      runs: PATH or NAME=PATH of folders of `albert finetune`. Runs from one checkpoint or of one name are a row.
      output: the laboratory's folder.
      gold: task -> SQuAD's file with the correct answers. Default: the runs' own dev files, at their
        recorded paths.
      command: the command line.

    Raises:
      InputError: a folder is not a finished run of these tasks, or runs of one task predicted different examples.
        Nothing has been written then.
    """
    read = read_runs(runs, board.tasks)
    of_task = {task: [run for run in read if run.task.name == task] for task in board.tasks}
    reports = [_report(task, of_task[task], gold or {}) for task in board.tasks if of_task[task]]
    ours = {name: _single(name, reports) for name in dict.fromkeys(run.row for run in read)}
    ensemble = _ensemble(reports)
    missing_gold = [_MISSING_GOLD.format(task=report.task.name) for report in reports if not report.ensemble]
    rows = [
        *_rows_of_paper(board.single, "single", "{} (paper)"),
        *(ResultRow(f"single/{name}", f"{name} (ours)", {}, values) for name, values in ours.items()),
        *_rows_of_paper(board.ensembles, "ensemble", board.ensemble_title),
        *([ResultRow(ENSEMBLE, "Ensemble of each task's runs (ours)", {}, ensemble)] if ensemble else []),
    ]
    used = {column for row in rows for column in (*row.paper, *row.ours)}
    results = Results(
        experiment=board.name,
        title=board.title,
        paper=board.name.replace("table", "Table "),
        question="How good are fine-tuned models, alone (median of the runs) and as an ensemble?",
        scale="",
        seeds=sorted({int(run.settings["seed"]) for run in read if run.settings.get("seed") is not None}),
        command=command,
        settings={"runs": [_describe(run) for run in read]},
        environment=describe_environment(),
        columns=[column for column in board.columns if column.name in used],
        rows=rows,
        notes=[*_findings(board, ours, ensemble), *board.notes, *missing_gold],
        statistic="median",
    )
    write_results(output / board.name, results)
    return results


def parse_gold(arguments: Sequence[str]) -> dict[str, Path]:
    """Parses arguments TASK=FILE.

    Raises:
      InputError: an argument has another form, or there is no such file.
    """
    gold = {}
    for argument in arguments:
        task, _, file = argument.partition("=")
        if task not in ("squad1.1", "squad2.0") or not Path(file).is_file():
            raise InputError(
                "--gold must be squad1.1=FILE or squad2.0=FILE, with SQuAD's JSON file of correct answers. "
                f"Received {argument!r}."
            )
        gold[task] = Path(file)
    return gold


def _report(task: str, runs: Sequence[FinetunedRun], gold: Mapping[str, Path]) -> TaskReport:
    answers = gold_of(runs, gold.get(task)) if task.startswith("squad") else None
    return task_report(runs, answers, test_is_known=task == "race")


def _single(name: str, reports: Sequence[TaskReport]) -> dict[str, list[float]]:
    """Column -> one value per run of that row."""
    values: dict[str, list[float]] = {}
    for report in reports:
        for metrics in report.members.get(name, ()):
            for column, value in _numbers(report, metrics).items():
                values.setdefault(column, []).append(value)
    return values


def _ensemble(reports: Sequence[TaskReport]) -> dict[str, list[float]]:
    """Column -> the ensemble's value, for tasks with at least two runs."""
    several = [report for report in reports if report.ensemble and sum(map(len, report.members.values())) > 1]
    values = {
        column: [value] for report in several for column, value in _numbers(report, report.ensemble).items()
    }
    if {report.task.name for report in several} >= set(GLUE_TASKS):
        values["average"] = [glue_average({report.task.name: report.ensemble for report in several})]
    return values


def _numbers(report: TaskReport, metrics: Mapping[str, float]) -> dict[str, float]:
    """A task's metrics as columns, in percent."""
    task = report.task.name
    if task == "race":
        prefix = "race" if report.role == "test" else "race_dev"
        parts = {"accuracy_middle", "accuracy_high"} & metrics.keys()
        # Of a run on one part alone, "accuracy" is that part's.
        names = parts if len(parts) == 1 else {"accuracy", *parts}
        return {name.replace("accuracy", prefix): 100 * metrics[name] for name in sorted(names)}
    return _NUMBERS.get(task, lambda metrics: {task: 100 * metrics["accuracy"]})(metrics)


def _findings(
    board: Leaderboard,
    single: Mapping[str, Mapping[str, Sequence[float]]],
    ensemble: Mapping[str, Sequence[float]],
) -> list[str]:
    """A sentence that compares the ensemble with its members."""
    above, within, below = (
        "above all of its members in",
        "within its members' range in",
        "below all of them in",
    )
    places: dict[str, list[str]] = {above: [], within: [], below: []}
    for column in board.columns:
        members = [value for values in single.values() for value in values.get(column.name, ())]
        if column.name not in ensemble or not members:
            continue
        (value,) = ensemble[column.name]
        place = above if value > max(members) else below if value < min(members) else within
        places[place].append(f"{column.title} {column.unit}".strip())
    parts = [f"{words} {', '.join(titles)}" for words, titles in places.items() if titles]
    return [f"The ensemble is {'; '.join(parts)}."] if parts else []


def _rows_of_paper(rows: Mapping[str, Mapping[str, float]], kind: str, title: str) -> list[ResultRow]:
    return [ResultRow(f"paper/{kind}/{name}", title.format(name), values) for name, values in rows.items()]


def _describe(run: FinetunedRun) -> dict[str, Any]:
    kept = {key: run.settings[key] for key in _KEPT_SETTINGS if run.settings.get(key) is not None}
    return {"row": run.row, "folder": str(run.folder), "task": run.task.name, **kept}
