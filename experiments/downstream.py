"""Fine-tunes one pretrained model on all downstream tasks; reports scores beside trivial baselines.

For example:

    python -m experiments.downstream --init_checkpoint=albert_small_en --glue_dir=glue --seeds=5 \\
        --squad_file=squad/dev-v1.1.json --race_dir=race --output=downstream

Each run is evaluated once, at its end, so the dev set chooses nothing. Tasks without data are skipped. SQuAD's dev
set is split by article (experiments/squad_split.py); QNLI's, if its folder has no training set, by question. The
same command resumes an interrupted experiment.

`--tasks` also splits an experiment: downstream.json keeps the rows of other tasks, each with its conditions. A
task that was measured under other conditions is measured again.

The baselines are those of experiments/trivial_baselines.py: the most frequent class; for STS-B the share of words
that both texts have; for SQuAD the context's first sentence; for RACE the longest option. The learning rates and
epochs are not the paper's; they suit a small encoder.
"""

import json
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from albert_cli import program
from albert_tf.checkpoints.card import markdown_table
from albert_tf.checkpoints.run_files import RESULTS_FILE
from albert_tf.tasks.examples import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.task import find_task
from data_prep.errors import InputError, check_among
from data_prep.files import new_folder, read_json_object, write_json, write_text
from experiments import squad_split
from experiments.albert_command import albert
from experiments.conditions import check_conditions, facts_of
from experiments.trivial_baselines import baseline_metrics

# Task -> epochs, peak learning rate.
TASKS = {
    "sst-2": (3, 2e-4),
    "cola": (4, 2e-4),
    "mrpc": (6, 2e-4),
    "sts-b": (10, 3e-4),
    "qnli": (6, 2e-4),
    "rte": (6, 2e-4),
    "wnli": (2, 1e-4),
    "squad1.1": (4, 5e-4),
    "race": (4, 1e-4),
}
LONG_TASKS = ("race",)  # with --long_seq_length
AT_THE_END = 10**9  # --save_checkpoints_steps: evaluated once, when training ends
QNLI_DEV_SHARE = 0.2
REPORT_FILE = "downstream.json"


@dataclass(frozen=True)
class DownstreamSettings:
    """The flags.

    Attributes:
      init_checkpoint: pretrained model to start from.
      output: folder for the runs and downstream.json.
      glue_dir: folder of GLUE as downloaded.
      squad_file: SQuAD 1.1's development set, which is split into a training and a development set.
      race_dir: folder of RACE as downloaded.
      tasks: names of tasks, separated by commas.
      max_seq_length: maximum length in tokens, at most the model's number of positions.
      long_seq_length: maximum length in tokens for tasks with long passages.
      train_batch_size: number of examples per step.
      mixed_precision: "bfloat16" for activations. Default: float32.
      seeds: number of runs of each task.
    """

    init_checkpoint: str
    output: Path
    glue_dir: Path | None = None
    squad_file: Path | None = None
    race_dir: Path | None = None
    tasks: str = ",".join(TASKS)
    max_seq_length: int = 128
    long_seq_length: int = 256
    train_batch_size: int = 32
    mixed_precision: Literal["bfloat16"] | None = None
    seeds: int = 1


def main(settings: DownstreamSettings) -> dict:
    """Runs all tasks and writes the report."""
    names = settings.tasks.split(",")
    check_among(TASKS, "tasks", names)
    report_file = settings.output / REPORT_FILE
    rows = read_rows(report_file) if report_file.is_file() else {}
    for name in names:
        source = data_of(name, settings)
        if source is None:
            continue
        measured_under = conditions(source, settings)
        if name in rows and rows[name]["conditions"] == measured_under:
            continue
        rows[name] = {
            "conditions": measured_under,
            **baseline(name, source),
            **finetune(name, source, settings),
        }
        print(name, json.dumps(rows[name]), flush=True)
        rows = {task: rows[task] for task in TASKS if task in rows}
        write_json(report_file, {"tasks": rows})
    print(table(rows))
    return {"tasks": rows}


def conditions(source: dict[str, str], settings: DownstreamSettings) -> dict[str, Any]:
    """The flags on which a task's scores depend, among them those for its data."""
    names = (
        "init_checkpoint",
        "max_seq_length",
        "long_seq_length",
        "train_batch_size",
        "mixed_precision",
        "seeds",
    )
    return {**source, **{name: getattr(settings, name) for name in names}}


def read_rows(report_file: Path) -> dict[str, dict]:
    """The rows of a report; earlier ones have the same conditions for all."""
    report = read_json_object(report_file)
    return {name: {"conditions": report.get("settings"), **row} for name, row in report["tasks"].items()}


def data_of(name: str, settings: DownstreamSettings) -> dict[str, str] | None:
    """The flags of `albert finetune` for a task's data; None if there are none."""
    if name == "squad1.1":
        return split_by_article(settings.squad_file, settings.output) if settings.squad_file else None
    if name == "race":
        return {"data_dir": str(settings.race_dir)} if settings.race_dir else None
    if settings.glue_dir is None:
        return None
    folder = settings.glue_dir / find_task(name).folder
    if name == "qnli" and not (folder / "train.tsv").is_file() and (folder / "dev.tsv").is_file():
        folder = split_by_question(folder / "dev.tsv", settings.output)
    return {"data_dir": str(folder)} if (folder / "train.tsv").is_file() else None


def split_by_article(squad: Path, output: Path) -> dict[str, str]:
    """Splits SQuAD's file by article unless the parts exist; returns the flags for them."""
    folder = output / "squad"
    check_conditions(folder, "squad", {"squad_file": facts_of([squad])})
    files = {f"{part}_file": folder / f"{part}-v1.1.json" for part in ("train", "dev")}
    if not all(file.is_file() for file in files.values()):
        squad_split.main(squad_split.SplitSettings(squad, folder))
    if not all(file.is_file() for file in files.values()):
        raise InputError(f"--squad_file must be of SQuAD 1.1. Received {squad}, of another version.")
    return {flag: str(file) for flag, file in files.items()}


def split_by_question(qnli: Path, output: Path) -> Path:
    """Splits QNLI's file by question unless the parts exist; returns their folder."""
    folder = output / "qnli_by_question"
    check_conditions(output, "qnli", {"glue_dir": facts_of([qnli])})
    if not folder.exists():
        with qnli.open(encoding="utf-8") as lines:
            header, *rows = lines
        questions = sorted({question_of(row) for row in rows})
        dev = set(random.Random(0).sample(questions, round(QNLI_DEV_SHARE * len(questions))))
        with new_folder(folder) as unfinished:
            for split in ("train", "dev"):
                part = [row for row in rows if (question_of(row) in dev) == (split == "dev")]
                write_text(unfinished / f"{split}.tsv", "".join([header, *part]))
    return folder


def question_of(row: str) -> str:
    """The question in a row of QNLI: index, question, sentence, label."""
    return row.split("\t")[1]


def lengths(long: bool, settings: DownstreamSettings) -> dict:
    """The flags for the length of sequences."""
    T = settings.long_seq_length if long else settings.max_seq_length
    return {"max_seq_length": T, "resize_positions": long}


def finetune(name: str, source: dict[str, str], settings: DownstreamSettings) -> dict:
    """Runs `albert finetune`; returns its results.json and the minutes."""
    epochs, learning_rate = TASKS[name]
    flags = {
        "task": name,
        **source,
        "init_checkpoint": settings.init_checkpoint,
        "output_dir": settings.output / name,
        "num_train_epochs": epochs,
        "learning_rate": learning_rate,
        "train_batch_size": settings.train_batch_size,
        **lengths(name in LONG_TASKS, settings),
        "dropout": 0.1,
        "mixed_precision": settings.mixed_precision,
        "save_checkpoints_steps": AT_THE_END,
        "seeds": settings.seeds,
    }
    if name == "squad1.1":
        flags |= {
            "max_query_length": settings.max_seq_length // 4,
            "doc_stride": settings.max_seq_length // 2,
        }
    began, is_new = time.monotonic(), not (settings.output / name).exists()
    albert("finetune", "--do_train", "--do_eval", **flags)
    results = read_json_object(settings.output / name / RESULTS_FILE)
    minutes = round((time.monotonic() - began) / 60, 1)
    return {"results": results, "minutes": minutes if is_new else None}  # unknown for a run that was resumed


def baseline(name: str, source: dict[str, str]) -> dict:
    """The name of a task's metric, and the score of its baseline."""
    task = find_task(name)
    examples = read_examples(task, source.get("dev_file") or source["data_dir"], "dev", Problems())
    metrics = baseline_metrics(task, examples)
    chosen = metrics.get("first_sentence") or metrics.get("shared_words") or metrics
    return {"metric": task.main_metric, "baseline": chosen[task.main_metric]}


def table(rows: dict[str, dict]) -> str:
    """All scores as a Markdown table."""
    header = ("task", "metric", "trivial", "median", "lowest to highest", "seeds", "minutes")
    return markdown_table(header, [table_row(name, row) for name, row in rows.items()])


def table_row(name: str, row: dict) -> tuple:
    """The scores of a task, over its seeds; SQuAD's are percentages."""
    scores, seeds = row["results"]["dev"][row["metric"]], int(row["conditions"]["seeds"])
    decimals = 1 if find_task(name).kind == "question_answering" else 3
    trivial, median, lowest, highest = (
        f"{score:.{decimals}f}" for score in (row["baseline"], scores["median"], scores["min"], scores["max"])
    )
    return (
        name,
        row["metric"],
        trivial,
        median,
        f"{lowest} to {highest}" if seeds > 1 else "",
        seeds,
        "" if row["minutes"] is None else row["minutes"],
    )


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, DownstreamSettings, __doc__))
