"""Counts how often fine-tuning on little data fails, here and with the defaults of other libraries.

For example:

    python -m experiments.collapsed_runs --init_checkpoint=albert_small_en --glue_dir=glue --output=collapsed \\
        --transformers_python=peers/bin/python --keras_hub_python=peers/bin/python

Every run trains on the same 2,000 texts of a task, for about the same processor time with start and evaluation:
that of the usual recipe here. One process trains all seeds, so that its start counts little; with the search,
each seed has a process, a third of the steps, and the search has the others. Each run is evaluated once, at its
end, so that the dev set chooses no checkpoint; it chooses the rate of the search. A run has collapsed if its
predictions of the dev set are nearly all one class (`albert_tf.tasks.collapse`). `search_whole`, which only
`--ways` runs, is the search as users begin it, with all steps and twice as many for the other rates.

A finished run is a file of the output; the same command goes on, and `--tasks`, `--ways`, `--first_seed` and
`--seeds` choose a part. results.md has the table of all that is finished.
"""

import json
import os
import random
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_cli import program
from albert_tf.tasks.collapse import one_answer
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.task import find_task
from benchmarks.processes import albert
from benchmarks.report import markdown_table
from data_prep.errors import InputError, check_among
from data_prep.files import read_json_object, write_json, write_text
from experiments.conditions import check_conditions
from experiments.downstream import AT_THE_END, DownstreamSettings, data_of

# Task -> length in tokens, at most; of pairs it is what 400 runs can afford.
TASKS = {"sst-2": 128, "cola": 128, "mrpc": 64, "rte": 64, "qnli": 64}
WAYS = ("here", "search", "search_whole", "transformers", "keras_hub")
_SEARCHES = ("search", "search_whole")
_FORMATS = {"transformers": "huggingface", "keras_hub": "kerashub"}
_BATCH, _EPOCHS = 32, 3  # of the usual recipe for own data


@dataclass(frozen=True)
class CollapseSettings:
    """The flags.

    Attributes:
      init_checkpoint: pretrained model to start from.
      output: folder for data, runs and results.md.
      glue_dir: folder of GLUE as downloaded.
      transformers_python: Python that has transformers and torch.
      keras_hub_python: Python that has KerasHub and TensorFlow.
      tasks: names of tasks, separated by commas.
      ways: names of ways to train, separated by commas.
      first_seed: the first seed.
      seeds: number of seeds.
      examples: training examples of each task.
      dev_examples: examples of each dev set, at most.
    """

    init_checkpoint: str
    output: Path
    glue_dir: Path
    transformers_python: str = "python"
    keras_hub_python: str = "python"
    tasks: str = ",".join(TASKS)
    ways: str = ",".join(way for way in WAYS if way != "search_whole")
    first_seed: int = 0
    seeds: int = 20
    examples: int = 2000
    dev_examples: int = 400

    def __post_init__(self):
        check_among(TASKS, "tasks", self.tasks.split(","))
        check_among(WAYS, "ways", self.ways.split(","))


def main(settings: CollapseSettings) -> None:
    """Runs what is missing; writes the table after each process."""
    names = ("init_checkpoint", "examples", "dev_examples")
    check_conditions(settings.output, "collapsed_runs", {name: getattr(settings, name) for name in names})
    for task in settings.tasks.split(","):
        prepare(task, settings)
        for way in settings.ways.split(","):
            seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
            while seeds and result_file(settings, task, way, seeds[0]).is_file():
                seeds = seeds[1:]
            each = 1 if way in _SEARCHES else len(seeds) or 1
            for first in range(0, len(seeds), each):
                measure(settings, task, way, seeds[first : first + each])
                write_text(settings.output / "results.md", table(settings.output))
    print((settings.output / "results.md").read_text())


def result_file(settings: CollapseSettings, task: str, way: str, seed: int) -> Path:
    """The file of a finished run."""
    return settings.output / "runs" / task / way / f"{seed}.json"


def data_file(settings: CollapseSettings, task: str, part: str) -> Path:
    """A part of a task's data, JSON Lines."""
    return settings.output / "data" / f"{task}-{part}.jsonl"


def rows_of(settings: CollapseSettings, task: str, part: str) -> list[dict[str, Any]]:
    """The rows of a part."""
    return [json.loads(line) for line in data_file(settings, task, part).read_text().splitlines()]


def model_folder(settings: CollapseSettings, way: str) -> Path:
    """The pretrained model in the format of a library."""
    return settings.output / "models" / way


def prepare(name: str, settings: CollapseSettings) -> None:
    """Draws a task's examples, unless that has been done."""
    source = data_of(name, DownstreamSettings("", settings.output, glue_dir=settings.glue_dir))
    assert source, f"--glue_dir holds {name}"
    for part, most in (("train", settings.examples), ("dev", settings.dev_examples)):
        path = data_file(settings, name, part)
        if path.is_file():
            continue
        examples: list[Any] = read_examples(find_task(name), source["data_dir"], part, Problems())
        drawn = random.Random(0).sample(examples, min(most, len(examples)))
        rows = [
            {"text_a": one.text_a, "label": one.label} | ({"text_b": one.text_b} if one.text_b else {})
            for one in drawn
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def measure(settings: CollapseSettings, task: str, way: str, seeds: Sequence[int]) -> None:
    """Trains with these seeds in one process and writes the result of each.

    Raises:
      InputError: another library is to train for as long as the runs here, and there are none.
    """
    if way in _FORMATS and not model_folder(settings, way).is_dir():
        albert("convert", settings.init_checkpoint, model_folder(settings, way), to=_FORMATS[way])
    folder = settings.output / "unfinished" / f"{task}-{way}-{seeds[0]}"
    shutil.rmtree(folder, ignore_errors=True)  # of a killed process, whose time is not known
    began = os.times()
    train = of_library if way in _FORMATS else of_albert_tf
    predictions = train(settings, task, way, seeds, folder)
    seconds = sum(os.times()[2:4]) - sum(began[2:4])  # of processes that have ended
    shutil.rmtree(folder)
    labels = [row["label"] for row in rows_of(settings, task, "dev")]
    found = find_task(task)
    for seed, predicted in zip(seeds, predictions, strict=True):
        path = result_file(settings, task, way, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "score": found.kind.score(found, predicted, labels)[found.main_metric],
            "collapsed": one_answer(list(zip(predicted, labels, strict=True))),
            "processor_seconds": seconds / len(seeds),
        }
        write_json(path, result)


def of_albert_tf(
    settings: CollapseSettings, task: str, way: str, seeds: Sequence[int], folder: Path
) -> list[list[str]]:
    """The predictions of each seed after `albert finetune`."""
    files = {f"{part}_file": data_file(settings, task, part) for part in ("train", "dev")}
    steps = _EPOCHS * -(-len(rows_of(settings, task, "train")) // _BATCH)
    albert(
        "finetune",
        "--do_train",
        "--do_eval",
        task="classification",
        **files,
        init_checkpoint=settings.init_checkpoint,
        output_dir=folder,
        seed=seeds[0],
        seeds=len(seeds),
        num_train_steps=steps // 3 if way == "search" else steps,
        learning_rate="search" if way in _SEARCHES else None,
        train_batch_size=_BATCH,
        max_seq_length=TASKS[task],
        save_checkpoints_steps=AT_THE_END,
    )
    files_of_seeds = [folder / f"seed_{seed}" / "dev_predictions.tsv" for seed in seeds]
    return [[line.split("\t")[1] for line in path.read_text().splitlines()[1:]] for path in files_of_seeds]


def of_library(
    settings: CollapseSettings, task: str, way: str, seeds: Sequence[int], folder: Path
) -> list[list[str]]:
    """The predictions of the models that another library trains, each for as much processor time as here."""
    here = [read_json_object(path) for path in (settings.output / "runs" / task / "here").glob("*.json")]
    if not here:
        raise InputError(
            f"--ways={way} trains for as long as the way here, which has no run of {task}; run it first."
        )
    folder.mkdir(parents=True)
    arguments = {
        "library": way,
        "output": str(folder / "predictions.json"),
        **{part: str(data_file(settings, task, part)) for part in ("train", "dev")},
        "model": str(model_folder(settings, way)),
        "max_length": TASKS[task],
        "seeds": list(seeds),
        "seconds": statistics.median(run["processor_seconds"] for run in here),
    }
    python = getattr(settings, f"{way}_python")
    subprocess.run([python, "-m", "experiments.library_defaults", json.dumps(arguments)], check=True)
    return read_json_object(folder / "predictions.json")["predictions"]


def table(output: Path) -> str:
    """All finished runs, as Markdown."""
    rows = []
    for task in TASKS:
        for way in WAYS:
            runs = [read_json_object(path) for path in (output / "runs" / task / way).glob("*.json")]
            if not runs:
                continue
            scores = [run["score"] for run in runs]
            rows.append(
                (
                    task,
                    way,
                    len(runs),
                    f"{sum(bool(run['collapsed']) for run in runs) / len(runs):.0%}",
                    f"{statistics.median(scores):.3f}",
                    f"{min(scores):.3f}",
                    f"{statistics.median(run['processor_seconds'] for run in runs):.0f}",
                )
            )
    header = ("task", "way", "runs", "collapsed", "median score", "worst", "processor seconds")
    return markdown_table(header, rows) + "\n"


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, CollapseSettings, __doc__))
