"""Fine-tunes one pretrained model on all downstream tasks; reports scores beside trivial baselines.

For example:

    python -m experiments.downstream --init_checkpoint=albert_small_en --glue_dir=glue --seeds=5 \\
        --squad_file=squad/dev-v1.1.json --race_dir=race --output=downstream

Each run is evaluated once, at its end, so the dev set chooses nothing. Tasks without data are skipped. SQuAD's dev
set is split by article; QNLI's, if its folder has no training set, by question. The same command resumes an
interrupted experiment.

`--tasks` also splits an experiment: downstream.json keeps the rows of other tasks, each with its conditions. A
task that was measured under other conditions is measured again.

The trivial baselines are the most frequent class; for STS-B the share of words that both texts have; for SQuAD the
context's first sentence; for RACE the longest option. The learning rates and epochs are not the paper's; they suit
a small encoder.
"""

import functools
import json
import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from albert_cli import program
from albert_tf.checkpoints.run_files import RESULTS_FILE
from albert_tf.tasks.choice.kind import OPTIONS
from albert_tf.tasks.kind import Task
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.spans.kind import SPANS
from albert_tf.tasks.spans.metrics import evaluate_squad1
from albert_tf.tasks.task import find_task
from albert_tf.tasks.texts.kind import NUMBERS
from benchmarks.processes import albert
from benchmarks.report import markdown_table
from data_prep.errors import check_among
from data_prep.files import new_folder, read_json_object, write_json, write_text
from data_prep.text.documents import split_sentences
from experiments.conditions import check_conditions, facts_of

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
_LONG_TASKS = ("race",)  # with --long_seq_length
AT_THE_END = 10**9  # --save_checkpoints_steps: evaluated once, when training ends
_DEV_SHARE = 0.2  # of a development set that is split


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


def main(settings: DownstreamSettings) -> None:
    """Runs all tasks and writes the report."""
    names = settings.tasks.split(",")
    check_among(TASKS, "tasks", names)
    report_file = settings.output / "downstream.json"
    rows = read_json_object(report_file)["tasks"] if report_file.is_file() else {}
    places = ("output", "glue_dir", "squad_file", "race_dir", "tasks")
    common = {name: value for name, value in vars(settings).items() if name not in places}
    for name in names:
        source = data_of(name, settings)
        if source is None or rows.get(name, {}).get("conditions") == {**source, **common}:
            continue
        rows[name] = {"conditions": {**source, **common}, **measure(name, source, settings)}
        rows = {task: rows[task] for task in TASKS if task in rows}
        write_json(report_file, {"tasks": rows})
    print(table(rows))


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
    folder = output / "squad_by_article"
    check_conditions(output, "squad", {"squad_file": facts_of([squad])})
    if not folder.exists():
        content = read_json_object(squad)
        articles = content["data"]
        dev = _chosen(range(len(articles)))
        with new_folder(folder) as unfinished:
            for split in ("train", "dev"):
                part = [article for i, article in enumerate(articles) if (i in dev) == (split == "dev")]
                text = json.dumps({**content, "data": part}, ensure_ascii=False)
                write_text(unfinished / f"{split}-v1.1.json", text)
    return {f"{split}_file": str(folder / f"{split}-v1.1.json") for split in ("train", "dev")}


def split_by_question(qnli: Path, output: Path) -> Path:
    """Splits QNLI's file by question unless the parts exist; returns their folder."""
    folder = output / "qnli_by_question"
    check_conditions(output, "qnli", {"glue_dir": facts_of([qnli])})
    if not folder.exists():
        with qnli.open(encoding="utf-8") as lines:
            header, *rows = lines
        question_of = {row: row.split("\t")[1] for row in rows}  # index, question, sentence, label
        dev = _chosen(sorted(set(question_of.values())))
        with new_folder(folder) as unfinished:
            for split in ("train", "dev"):
                part = [row for row in rows if (question_of[row] in dev) == (split == "dev")]
                write_text(unfinished / f"{split}.tsv", "".join([header, *part]))
    return folder


def _chosen(items: Any) -> Collection[Any]:
    """A fifth of the items, at random."""
    return set(random.Random(0).sample(items, round(_DEV_SHARE * len(items))))


def measure(name: str, source: dict[str, str], settings: DownstreamSettings) -> dict[str, Any]:
    """Runs `albert finetune`; the metric, the score of its baseline, and the results."""
    task, (epochs, learning_rate) = find_task(name), TASKS[name]
    examples = read_examples(task, source.get("dev_file") or source["data_dir"], "dev", Problems())
    flags: dict[str, Any] = {}
    if name == "squad1.1":
        flags = {"max_query_length": settings.max_seq_length // 4, "doc_stride": settings.max_seq_length // 2}
    is_long = name in _LONG_TASKS
    albert(
        "finetune",
        "--do_train",
        "--do_eval",
        task=name,
        **source,
        init_checkpoint=settings.init_checkpoint,
        output_dir=settings.output / name,
        num_train_epochs=epochs,
        learning_rate=learning_rate,
        train_batch_size=settings.train_batch_size,
        max_seq_length=settings.long_seq_length if is_long else settings.max_seq_length,
        resize_positions=True if is_long else None,
        dropout=0.1,
        mixed_precision=settings.mixed_precision,
        save_checkpoints_steps=AT_THE_END,
        seeds=settings.seeds,
        **flags,
    )
    return {
        "metric": task.main_metric,
        "baseline": baseline(task, examples),
        "results": read_json_object(settings.output / name / RESULTS_FILE),
    }


def baseline(task: Task, examples: Sequence[Any]) -> float:
    """The task's main metric for predictions that need no training, which fine-tuning has to exceed."""
    if task.kind is SPANS:
        first = {example.id: _first_sentence(example.context) for example in examples}
        return evaluate_squad1({example.id: example.answers for example in examples}, first)[task.main_metric]
    labels = [example.label for example in examples]
    if task.kind is OPTIONS:
        predictions = [max(range(len(e.options)), key=lambda i, e=e: len(e.options[i])) for e in examples]
    elif task.kind is NUMBERS:
        predictions = [_shared_words(example.text_a, example.text_b) for example in examples]
    else:
        predictions = [Counter(labels).most_common(1)[0][0]] * len(labels)
    return task.kind.score(task, predictions, labels)[task.main_metric]


def _shared_words(text: str, other: str) -> float:
    """The number of words in both texts, divided by the number in either."""
    a, b = set(text.lower().split()), set(other.lower().split())
    return len(a & b) / max(1, len(a | b))


@functools.cache
def _first_sentence(context: str) -> str:
    return next(iter(split_sentences(" ".join(context.split()), "en")), "")


def table(rows: dict[str, dict[str, Any]]) -> str:
    """All scores as a Markdown table; SQuAD's are percentages."""
    lines = []
    for name, row in rows.items():
        scores, seeds = row["results"]["dev"][row["metric"]], row["conditions"]["seeds"]
        decimals = 1 if name == "squad1.1" else 3
        numbers = (row["baseline"], *(scores[which] for which in ("median", "min", "max")))
        trivial, median, lowest, highest = (f"{number:.{decimals}f}" for number in numbers)
        spread = f"{lowest} to {highest}" if seeds > 1 else ""
        lines.append((name, row["metric"], trivial, median, spread, seeds))
    return markdown_table(("task", "metric", "trivial", "median", "lowest to highest", "seeds"), lines)


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, DownstreamSettings, __doc__))
