"""Measures speed and memory of `albert prepare` and, if given, of the original's script.

For example:

    python -m benchmarks.data_prep --input_file='books/*.md' --spm_model_file=30k-clean.model \\
        --original_repo=google-research-albert --original_python=py37/bin/python --output=data_prep.json

The original's create_pretraining_data.py needs Python 3.7 with tensorflow==1.15.2 and sentencepiece. The programs
run in turns, so that other load on the machine affects all of them. Rates are reported per second of wall time and
per second of user CPU time, summed over processes, which depends little on that load.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from albert_cli import program
from benchmarks.peers import write_report
from benchmarks.report import describe_machine
from data_prep.errors import InputError, check_at_least
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.files import read_json_object
from data_prep.text.documents import read_documents, read_texts
from data_prep.text.sources import InputFormat, expand_files, input_size
from data_prep.tfrecord.records import read_records

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class BenchmarkSettings:
    """The flags.

    Attributes:
      input_file: text in prose; globs and commas are allowed. It is repeated if it is shorter than --megabytes.
      spm_model_file: SentencePiece model of the vocabulary.
      output: JSON file to write the results to.
      megabytes: size of the text for the timed runs, in MB.
      rounds: number of timed runs of each program.
      max_seq_length: length of an example in tokens, T.
      dupe_factor: number of passes over the text, as in `albert prepare`.
      original_repo: checkout of google-research/albert.
      original_python: Python interpreter that runs the original.
      original_megabytes: size of the text for the original, in MB; it is slow, and its rate does not depend on
        the size.
      memory_megabytes: sizes of text in MB at which to measure peak memory, with two workers and one pass.
    """

    input_file: str
    spm_model_file: Path
    output: Path | None = None
    megabytes: int = 20
    rounds: int = 3
    max_seq_length: int = 512
    dupe_factor: int = 10
    original_repo: Path | None = None
    original_python: Path | None = None
    original_megabytes: int = 2
    memory_megabytes: tuple[int, ...] = ()

    def __post_init__(self):
        if (self.original_repo is None) != (self.original_python is None):
            given = "--original_repo" if self.original_repo else "--original_python"
            raise InputError(f"--original_repo and --original_python need each other. Received only {given}.")
        check_at_least(1, self, "megabytes", "rounds", "dupe_factor", "original_megabytes")


def main(settings: BenchmarkSettings) -> None:
    """Measures the programs in turns, then memory; writes the report after each run."""
    report: dict[str, Any] = {
        "machine": describe_machine(),
        "settings": {name: str(value) for name, value in vars(settings).items()},
        "runs": {},
        "memory": {},
        "driver_mb_per_s": {},
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = write_text_of(settings, settings.megabytes, folder / "text.txt")
        prose = expand_files(settings.input_file)
        report["driver_mb_per_s"] = {
            "lines": driver_rate([text], "lines"),
            "prose": driver_rate(prose, "prose"),
        }
        programs: dict[str, Callable[[], dict[str, float]]] = {
            "1 worker": lambda: run_ours(settings, text, folder, workers=1),
            "2 workers": lambda: run_ours(settings, text, folder, workers=2),
        }
        if settings.original_repo:
            small = write_text_of(settings, settings.original_megabytes, folder / "small.txt")
            programs["original"] = lambda: run_original(settings, small, folder)
        for number in range(settings.rounds):
            for run, measure in programs.items():
                report["runs"].setdefault(run, []).append(measure())
                print(f"round {number + 1}, {run}: {report['runs'][run][-1]}", flush=True)
                report |= summary(report["runs"])
                write_report(settings.output, report)
        for megabytes in settings.memory_megabytes:
            large = write_text_of(settings, megabytes, folder / "large.txt")
            row = run_ours(settings, large, folder, workers=2, dupe_factor=1)
            report["memory"][f"{megabytes} MB"] = row
            print(f"memory, {megabytes} MB: {row}", flush=True)
        write_report(settings.output, report)
    print(json.dumps({name: value for name, value in report.items() if name != "runs"}, indent=2))


def summary(runs: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """The medians of the runs so far, and how many times the original's rates are ours."""
    medians = {
        run: {name: statistics.median(row[name] for row in rows) for name in rows[0]}
        for run, rows in runs.items()
    }
    if "original" not in medians:
        return {"medians": medians}
    ours, theirs = medians["1 worker"], medians["original"]
    rates = ("tokens_per_user_s", "examples_per_user_s")
    return {"medians": medians, "times_the_original": {rate: ours[rate] / theirs[rate] for rate in rates}}


def driver_rate(paths: list[Path], layout: InputFormat) -> float:
    """The MB of text that the process which feeds the workers reads in a second of CPU time."""
    before = time.process_time()
    for _ in read_texts(paths, layout):
        pass
    return round(sum(map(input_size, paths)) / 1e6 / (time.process_time() - before), 1)


def write_text_of(settings: BenchmarkSettings, megabytes: int, path: Path) -> Path:
    """Writes `megabytes` of the text, repeated as needed, one sentence per line; returns `path`."""
    left = megabytes * 1_000_000
    with path.open("wb") as file:
        while True:
            before = left
            for document in read_documents(expand_files(settings.input_file), "prose"):
                # Books are cut into documents of 200 sentences.
                for begin in range(0, len(document.sentences), 200):
                    sentences = document.sentences[begin : begin + 200]
                    left -= file.write(("\n".join(sentences) + "\n\n").encode())
                    if left <= 0:
                        return path
            if left == before:
                raise InputError(
                    f"--input_file must have sentences. Received {settings.input_file} without any."
                )


def run_ours(
    settings: BenchmarkSettings, text: Path, folder: Path, workers: int, **changes: int
) -> dict[str, float]:
    """Measures one run of the `albert prepare` command, including its start."""
    flags = {
        "input_file": text,
        "output_file": folder / "ours" / "train.tfrecord",
        "spm_model_file": settings.spm_model_file.resolve(),
        "max_seq_length": settings.max_seq_length,
        "dupe_factor": settings.dupe_factor,
        "num_shards": 4,
        "workers": workers,
        **changes,
    }
    measured = run_measured([sys.executable, "-m", "albert_cli.cli", "prepare", "--overwrite"], flags, _ROOT)
    counts = read_json_object(folder / "ours" / "manifest.json")["counts"]
    return with_rates(measured, counts["examples"], counts["example_tokens"])


def run_original(settings: BenchmarkSettings, text: Path, folder: Path) -> dict[str, float]:
    """Measures one run of the original's script with the same lengths and number of predictions."""
    import tensorflow as tf

    assert settings.original_repo and settings.original_python
    predictions = PrepareSettings("", "", "", max_seq_length=settings.max_seq_length).predictions
    package = folder / "albert"  # the original's modules import each other as `albert.tokenization`
    if not package.exists():
        package.symlink_to(settings.original_repo.resolve())
    flags = {
        "input_file": text,
        "output_file": folder / "original.tfrecord",
        "spm_model_file": settings.spm_model_file.resolve(),
        "vocab_file": settings.spm_model_file.resolve().with_suffix(".vocab"),
        "max_seq_length": settings.max_seq_length,
        "max_predictions_per_seq": predictions,
        "dupe_factor": settings.dupe_factor,
    }
    command = [str(settings.original_python.absolute()), "-m", "albert.create_pretraining_data"]
    measured = run_measured(command, flags, folder)
    masks = [
        tf.train.Example.FromString(record).features.feature["input_mask"].int64_list.value
        for record in read_records(folder / "original.tfrecord")
    ]
    return with_rates(measured, len(masks), sum(map(sum, masks)))


def run_measured(command: list[str], flags: dict[str, Any], folder: Path) -> dict[str, float]:
    """Runs a command; its seconds and peak resident memory, together with its child processes."""
    command = [*command, *(f"--{name}={value}" for name, value in flags.items())]
    before, peak = os.times(), 0
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            try:
                root = psutil.Process(process.pid)
                members = (root, *root.children(recursive=True))
                peak = max(peak, sum(member.memory_info().rss for member in members))
            except psutil.NoSuchProcess:
                pass
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, messages = process.communicate()
    watcher.join()
    after = os.times()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{messages[-2000:]}")
    return {
        "user_s": round(after.children_user - before.children_user, 2),
        "system_s": round(after.children_system - before.children_system, 2),
        "wall_s": round(after.elapsed - before.elapsed, 2),
        "peak_mb": round(peak / 1e6),
    }


def with_rates(measured: dict[str, float], examples: int, tokens: int) -> dict[str, float]:
    """Adds what was written, and how much of it in a second."""
    return {
        "examples": examples,
        "tokens": tokens,
        **measured,
        "examples_per_user_s": round(examples / measured["user_s"], 1),
        "tokens_per_user_s": round(tokens / measured["user_s"]),
        "tokens_per_wall_s": round(tokens / measured["wall_s"]),
    }


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, BenchmarkSettings, __doc__))
