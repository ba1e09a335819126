"""Fine-tunes one pretrained model on all downstream tasks; reports scores beside trivial baselines.

For example:

    python -m experiments.downstream --init_checkpoint=curves/sop --glue_dir=glue \\
        --squad_file=squad/dev-v1.1.json --race_dir=race --lookup_dir=lookup --output=downstream

Tasks without data are skipped. SQuAD's dev set is split by article (experiments/squad_split.py). With
--lookup_dir, the output of experiments/lookup_data.py, tasks with two texts start from a model that has learned to
look words up; SQuAD does not gain from this, because all tokens contribute to its loss. The same command resumes
an interrupted experiment.

The baselines are those of experiments/trivial_baselines.py: the most frequent class; for STS-B the share of words
that both texts have; for SQuAD the context's first sentence; for RACE the longest option. The learning rates and
epochs are not the paper's; they suit a small encoder that was pretrained for minutes.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from albert_cli import program
from albert_tf.training.run_files import RESULTS_FILE
from data_prep.errors import InputError
from data_prep.files import read_json_object, write_json
from data_prep.tasks.examples import Problems
from data_prep.tasks.reading import read_examples
from data_prep.tasks.task import find_task
from experiments import squad_split
from experiments.albert_command import albert
from experiments.trivial_baselines import baseline_metrics

# Task -> epochs, peak learning rate.
TASKS = {
    "sst-2": (3, 2e-4),
    "cola": (4, 2e-4),
    "mrpc": (6, 2e-4),
    "sts-b": (10, 3e-4),
    "rte": (4, 2e-4),
    "wnli": (2, 1e-4),
    "squad1.1": (2, 5e-4),
    "race": (2, 2e-5),
}
# These start from a model that has learned to look words up.
LOOKUP_TASKS = ("mrpc", "sts-b", "rte", "wnli", "race")
LONG_TASKS = ("race",)  # with --long_seq_length


@dataclass(frozen=True)
class Lesson:
    """A fine-tuning run on one part of the output of experiments/lookup_data.py.

    Attributes:
      task: the kind of task.
      long: whether its texts need --long_seq_length.
      suffix: the suffix of its files.
      train_batch_size: examples in a step.
      num_train_steps: the number of steps.
      learning_rate: the peak.
    """

    task: str
    long: bool
    suffix: str
    train_batch_size: int
    num_train_steps: int
    learning_rate: float


LESSONS = {
    "short": Lesson("token-classification", False, "conll", 64, 1500, 1e-3),
    "long": Lesson("token-classification", False, "conll", 16, 600, 1e-3),
    "shared": Lesson("regression", True, "jsonl", 32, 2000, 5e-4),
}


@dataclass(frozen=True)
class DownstreamSettings:
    """The flags.

    Attributes:
      init_checkpoint: pretrained model to start from.
      output: folder for the runs and downstream.json.
      glue_dir: folder of GLUE as downloaded.
      squad_file: SQuAD 1.1's development set, which is split into a training and a development set.
      race_dir: folder of RACE as downloaded.
      lookup_dir: output folder of experiments/lookup_data.py.
      tasks: names of tasks, separated by commas.
      max_seq_length: maximum length in tokens, at most the model's number of positions.
      long_seq_length: maximum length in tokens for tasks with long passages; positions that the model lacks
        start from random values.
      train_batch_size: number of examples per step.
      seeds: number of runs of each task.
    """

    init_checkpoint: str
    output: Path
    glue_dir: Path | None = None
    squad_file: Path | None = None
    race_dir: Path | None = None
    lookup_dir: Path | None = None
    tasks: str = ",".join(TASKS)
    max_seq_length: int = 128
    long_seq_length: int = 256
    train_batch_size: int = 32
    seeds: int = 1


def main(settings: DownstreamSettings) -> dict:
    """Runs all tasks and writes the report."""
    names = settings.tasks.split(",")
    unknown = [name for name in names if name not in TASKS]
    if unknown:
        raise InputError(f"--tasks must be among {', '.join(TASKS)}. Received {unknown[0]!r}.")
    rows: dict[str, dict] = {}
    for name in names:
        source = data_of(name, settings)
        if source is not None:
            rows[name] = {**baseline(name, source), **finetune(name, source, settings)}
            print(name, json.dumps(rows[name]), flush=True)
    report = {"settings": {name: str(value) for name, value in vars(settings).items()}, "tasks": rows}
    write_json(settings.output / "downstream.json", report)
    print(table(rows))
    return report


def data_of(name: str, settings: DownstreamSettings) -> dict[str, str] | None:
    """The flags of `albert finetune` for a task's data; None if there are none."""
    if name == "squad1.1":
        return split_by_article(settings.squad_file, settings.output) if settings.squad_file else None
    if name == "race":
        return {"data_dir": str(settings.race_dir)} if settings.race_dir else None
    folder = settings.glue_dir / find_task(name).folder if settings.glue_dir else None
    return {"data_dir": str(folder)} if folder and (folder / "train.tsv").is_file() else None


def split_by_article(squad: Path, output: Path) -> dict[str, str]:
    """Splits SQuAD's file by article unless the parts exist; returns the flags for them."""
    folder = output / "squad"
    if not folder.exists():
        squad_split.main(squad_split.SplitSettings(squad, folder))
    return {f"{part}_file": str(folder / f"{part}-v1.1.json") for part in ("train", "dev")}


def start_of(name: str, settings: DownstreamSettings) -> str:
    """The model from which a task's run starts."""
    if settings.lookup_dir and name in LOOKUP_TASKS:
        return learn_to_look_up(settings.lookup_dir, settings)
    return settings.init_checkpoint


def learn_to_look_up(lessons: Path, settings: DownstreamSettings) -> str:
    """Trains the model on one lesson after the other; returns the last run. Finished runs are not repeated."""
    start = settings.init_checkpoint
    for name, lesson in LESSONS.items():
        run = settings.output / f"lookup_{name}"
        albert(
            "finetune",
            "--do_train",
            "--do_eval",
            task=lesson.task,
            train_file=lessons / name / f"train.{lesson.suffix}",
            dev_file=lessons / name / f"dev.{lesson.suffix}",
            init_checkpoint=start,
            output_dir=run,
            **lengths(lesson.long, settings),
            train_batch_size=lesson.train_batch_size,
            num_train_steps=lesson.num_train_steps,
            learning_rate=lesson.learning_rate,
            dropout=0,
            classifier_dropout=0,
        )
        start = str(run)
    return start


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
        "init_checkpoint": start_of(name, settings),
        "output_dir": settings.output / name,
        "num_train_epochs": epochs,
        "learning_rate": learning_rate,
        "train_batch_size": settings.train_batch_size,
        **lengths(name in LONG_TASKS, settings),
        "dropout": 0.1,
        "seeds": settings.seeds,
    }
    if name == "squad1.1":
        flags |= {
            "max_query_length": settings.max_seq_length // 4,
            "doc_stride": settings.max_seq_length // 2,
        }
    began = time.monotonic()
    albert("finetune", "--do_train", "--do_eval", **flags)
    results = read_json_object(settings.output / name / RESULTS_FILE)
    return {"results": results, "minutes": round((time.monotonic() - began) / 60, 1)}


def baseline(name: str, source: dict[str, str]) -> dict:
    """The name of a task's metric, and the score of its baseline."""
    task = find_task(name)
    examples = read_examples(task, source.get("dev_file") or source["data_dir"], "dev", Problems())
    metrics = baseline_metrics(task, examples)
    chosen = metrics.get("first_sentence") or metrics.get("shared_words") or metrics
    return {"metric": task.main_metric, "baseline": chosen[task.main_metric]}


def table(rows: dict[str, dict]) -> str:
    """All scores as a Markdown table."""
    lines = ["| task | metric | trivial | fine-tuned | minutes |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        lines.append(
            f"| {name} | {row['metric']} | {row['baseline']:.3f} | {score(row):.3f} | {row['minutes']} |"
        )
    return "\n".join(lines)


def score(row: dict) -> float:
    """The best weights' score on the dev set, the median over seeds."""
    return row["results"]["dev"][row["metric"]]["median"]


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, DownstreamSettings, __doc__))
