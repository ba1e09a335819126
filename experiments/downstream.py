"""Every downstream task, end to end, from one pretrained model: scores beside trivial baselines.

    python -m experiments.downstream --init_checkpoint=curves/sop --glue_dir=glue \
        --squad_file=squad/dev-v1.1.json --race_dir=race --lookup_dir=lookup --output=downstream

With what experiments/lookup_data.py made, tasks of two texts start from a model that was taught to look words up
(SQuAD, whose answers all tokens give, does not gain from it).
SQuAD's dev set is cut by article (experiments/squad_split.py). A task whose files are not there is left out. The
same command goes on with what was stopped. The baselines are those of experiments/trivial_baselines.py: the most
frequent class; for STS-B the share of words that both texts have; for SQuAD the context's first sentence; for
RACE the longest option. Learning rates and epochs are for a small encoder that was pretrained for minutes, not
the paper's.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from albert_cli import program
from data_prep.errors import InputError
from data_prep.files import write_text
from data_prep.tasks.examples import Problems
from data_prep.tasks.reading import read_examples
from data_prep.tasks.task import find_task
from experiments import squad_split
from experiments.albert_command import albert
from experiments.trivial_baselines import baseline_metrics

# Epochs and the peak learning rate.
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
# Start from a model that was taught to look words up.
LOOKUP_TASKS = ("mrpc", "sts-b", "rte", "wnli", "race")
LONG_TASKS = ("race",)  # their passages do not fit into what most tasks need


@dataclass(frozen=True)
class Lesson:
    """How one part of experiments/lookup_data.py is learned.

    Attributes:
      task: of own data.
      long: whether it has passages as long as those of LONG_TASKS.
      suffix: of its files.
      train_batch_size: examples a step.
      num_train_steps: of the run.
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
      init_checkpoint: the pretrained model.
      output: a folder for runs, downstream.json and a table.
      glue_dir: GLUE's folders as downloaded.
      squad_file: SQuAD 1.1's dev set, whose articles are split.
      race_dir: RACE's folder.
      lookup_dir: what experiments/lookup_data.py made.
      tasks: which, by commas; all by default.
      max_seq_length: T, at most what the model has positions for.
      long_seq_length: T of passages; further positions begin as chance has them.
      train_batch_size: examples a step.
      seeds: runs a task.
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
    names = settings.tasks.split(",")
    unknown = [name for name in names if name not in TASKS]
    if unknown:
        raise InputError(f"--tasks is a list of {', '.join(TASKS)}. Received {unknown[0]!r}.")
    rows: dict[str, dict] = {}
    for name in names:
        source = data_of(name, settings)
        if source is not None:
            rows[name] = {**baseline(name, source), **finetune(name, source, settings)}
            print(name, json.dumps(rows[name]), flush=True)
    report = {"settings": {name: str(value) for name, value in vars(settings).items()}, "tasks": rows}
    write_text(settings.output / "downstream.json", json.dumps(report, indent=2) + "\n")
    print(table(rows))
    return report


def data_of(name: str, settings: DownstreamSettings) -> dict[str, str] | None:
    """The flags of `albert finetune` that say where a task's data are; None where they are not."""
    if name == "squad1.1":
        return split_by_article(settings.squad_file, settings.output) if settings.squad_file else None
    if name == "race":
        return {"data_dir": str(settings.race_dir)} if settings.race_dir else None
    folder = settings.glue_dir / find_task(name).folder if settings.glue_dir else None
    return {"data_dir": str(folder)} if folder and (folder / "train.tsv").is_file() else None


def split_by_article(squad: Path, output: Path) -> dict[str, str]:
    """Cuts SQuAD's file by article, unless that has been done."""
    folder = output / "squad"
    if not folder.exists():
        squad_split.main(squad_split.SplitSettings(squad, folder))
    return {f"{part}_file": str(folder / f"{part}-v1.1.json") for part in ("train", "dev")}


def start_of(name: str, settings: DownstreamSettings) -> str:
    """What a task's encoder is at first."""
    if settings.lookup_dir and name in LOOKUP_TASKS:
        return taught_to_look_up(settings.lookup_dir, settings)
    return settings.init_checkpoint


def taught_to_look_up(lessons: Path, settings: DownstreamSettings) -> str:
    """Trains the model on each lesson in turn, unless that has been done; returns the last run."""
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
    """The flags that say how long sequences are."""
    T = settings.long_seq_length if long else settings.max_seq_length
    return {"max_seq_length": T, "resize_positions": long}


def finetune(name: str, source: dict[str, str], settings: DownstreamSettings) -> dict:
    """Runs `albert finetune`, and gives what its results.json says of the dev set."""
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
    results = json.loads((settings.output / name / "results.json").read_text(encoding="utf-8"))
    return {"results": results, "minutes": round((time.monotonic() - began) / 60, 1)}


def baseline(name: str, source: dict[str, str]) -> dict:
    """The metric of a task and what a trivial answer scores."""
    task = find_task(name)
    examples = read_examples(task, source.get("dev_file") or source["data_dir"], "dev", Problems())
    metrics = baseline_metrics(task, examples)
    chosen = metrics.get("first_sentence") or metrics.get("shared_words") or metrics
    return {"metric": task.main_metric, "baseline": chosen[task.main_metric]}


def table(rows: dict[str, dict]) -> str:
    """As Markdown."""
    lines = ["| task | metric | trivial | fine-tuned | minutes |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        lines.append(
            f"| {name} | {row['metric']} | {row['baseline']:.3f} | {score(row):.3f} | {row['minutes']} |"
        )
    return "\n".join(lines)


def score(row: dict) -> float:
    """The best weights' metric on the dev set; the median of the seeds."""
    return row["results"]["dev"][row["metric"]]["median"]


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, DownstreamSettings, __doc__))
