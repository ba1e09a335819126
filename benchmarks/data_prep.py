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
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from albert_cli import program
from albert_tf.lab.environment import describe_processor
from data_prep.errors import InputError, check_at_least
from data_prep.examples.document_examples import document_generator, serialize_batch
from data_prep.examples.masking import MaskingSettings, MaskingVocabulary, masked_example
from data_prep.examples.segments import segment_pairs
from data_prep.examples.settings import PrepareSettings
from data_prep.files import read_json_object, write_json
from data_prep.prepare.parts import INDEX, Part, merge_shard
from data_prep.text.documents import read_documents
from data_prep.text.sources import expand_files
from data_prep.tfrecord.records import framed, read_records
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer

ROOT = Path(__file__).parents[1]


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
      memory_megabytes: sizes of text in MB, separated by commas, at which to measure peak memory, with two
        workers and --dupe_factor=1.
    """

    input_file: str
    spm_model_file: str
    output: Path | None = None
    megabytes: int = 20
    rounds: int = 3
    max_seq_length: int = 512
    dupe_factor: int = 10
    original_repo: Path | None = None
    original_python: Path | None = None
    original_megabytes: int = 2
    memory_megabytes: str = ""

    def __post_init__(self):
        if (self.original_repo is None) != (self.original_python is None):
            given = "--original_repo" if self.original_repo else "--original_python"
            raise InputError(f"--original_repo and --original_python need each other. Received only {given}.")
        check_at_least(1, self, "megabytes", "rounds", "dupe_factor", "original_megabytes")
        if not all(size.isdecimal() and int(size) for size in self.memory_sizes):
            raise InputError(
                "--memory_megabytes must be positive whole numbers, such as 20,200. "
                f"Received {self.memory_megabytes}."
            )

    @property
    def memory_sizes(self) -> list[str]:
        """The sizes in --memory_megabytes."""
        return list(filter(None, self.memory_megabytes.split(",")))

    def write(self, report: dict[str, Any]) -> None:
        """Writes the report to `output`, if given."""
        if self.output:
            self.output.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.output, report)


@dataclass(frozen=True)
class Measured:
    """One run of a command: seconds, and the peak resident memory of all its processes together."""

    wall_s: float
    user_s: float
    system_s: float
    peak_mb: float


def main(settings: BenchmarkSettings) -> None:
    """Measures the programs in turns, then the steps of `albert prepare`; writes the report after each part."""
    report = new_report(settings)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = write_text_of(settings, settings.megabytes, folder / "text.txt")
        programs: dict[str, Callable[[], dict]] = {
            "1 worker": lambda: run_ours(settings, text, folder, workers=1),
            "2 workers": lambda: run_ours(settings, text, folder, workers=2),
        }
        if settings.original_repo:
            small = write_text_of(settings, settings.original_megabytes, folder / "small.txt")
            programs["original"] = lambda: run_original(settings, small, folder)
        for number in range(settings.rounds):
            for run, measure in programs.items():
                rows = report["runs"].setdefault(run, [])
                rows.append(measure())
                print(f"round {number + 1}, {run}: {rows[-1]}", flush=True)
                report |= summary(report["runs"])
                settings.write(report)
        report["breakdown"] = breakdown(settings, text, folder)
        settings.write(report)
        for megabytes in settings.memory_sizes:
            row = report["memory"][f"{megabytes} MB"] = measure_memory(settings, int(megabytes), folder)
            print(f"memory, {megabytes} MB: {row}", flush=True)
            settings.write(report)
    print(json.dumps({name: value for name, value in report.items() if name != "runs"}, indent=2))


def new_report(settings: BenchmarkSettings) -> dict[str, Any]:
    """A report that describes the machine and the settings."""
    return {
        "machine": {
            "cpu": describe_processor()["cpu"],
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "settings": {
            "megabytes": settings.megabytes,
            "original_megabytes": settings.original_megabytes if settings.original_repo else None,
            "max_seq_length": settings.max_seq_length,
            "dupe_factor": settings.dupe_factor,
        },
        "memory": {},
        "runs": {},
    }


def summary(runs: dict[str, list[dict]]) -> dict[str, dict]:
    """The medians of the runs so far, and how many times the original's rates are ours."""
    middle = {run: medians(rows) for run, rows in runs.items()}
    if "original" not in middle:
        return {"medians": middle}
    times = {
        unit: middle["1 worker"][unit] / middle["original"][unit]
        for unit in ("tokens_per_user_s", "examples_per_user_s")
    }
    return {"medians": middle, "times_the_original": times}


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


def run_ours(settings: BenchmarkSettings, text: Path, folder: Path, workers: int, **changes) -> dict:
    """Measures one run of the `albert prepare` command, including its start."""
    flags = {
        "input_file": text,
        "output_file": folder / "ours" / "train.tfrecord",
        "spm_model_file": Path(settings.spm_model_file).resolve(),
        "max_seq_length": settings.max_seq_length,
        "dupe_factor": settings.dupe_factor,
        "num_shards": 4,
        "workers": workers,
        **changes,
    }
    command = [sys.executable, "-m", "albert_cli.cli", "prepare", "--overwrite"]
    measured = measure([*command, *(f"--{name}={value}" for name, value in flags.items())], ROOT)
    counts = read_json_object(folder / "ours" / "manifest.json")["counts"]
    return rates(counts["examples"], counts["example_tokens"], measured)


def run_original(settings: BenchmarkSettings, text: Path, folder: Path) -> dict:
    """Measures one run of the original's script with the same lengths and number of predictions."""
    assert settings.original_repo and settings.original_python
    package = folder / "albert"  # the original's modules import each other as `albert.tokenization`
    if not package.exists():
        package.symlink_to(settings.original_repo.resolve())
    output = folder / "original.tfrecord"
    flags = {
        "input_file": text,
        "output_file": output,
        "spm_model_file": Path(settings.spm_model_file).resolve(),
        "vocab_file": Path(settings.spm_model_file).resolve().with_suffix(".vocab"),
        "max_seq_length": settings.max_seq_length,
        "max_predictions_per_seq": prepare_settings(settings).predictions,
        "dupe_factor": settings.dupe_factor,
    }
    command = [str(settings.original_python.absolute()), "-m", "albert.create_pretraining_data"]
    measured = measure([*command, *(f"--{name}={value}" for name, value in flags.items())], folder)
    return rates(*count_tokens(output), measured)


def measure(command: list[str], folder: Path) -> Measured:
    """Runs a command and measures it together with its child processes."""
    before = os.times()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    peaks: list[int] = []
    watcher = threading.Thread(target=watch_memory, args=(process, peaks))
    watcher.start()
    _, messages = process.communicate()
    watcher.join()
    after = os.times()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{messages[-2000:]}")
    return Measured(
        wall_s=after.elapsed - before.elapsed,
        user_s=after.children_user - before.children_user,
        system_s=after.children_system - before.children_system,
        peak_mb=max(peaks, default=0) / 1e6,
    )


def watch_memory(process: subprocess.Popen, peaks: list[int]) -> None:
    """Appends the resident memory of a process and its children to `peaks`, in bytes, 20 times a second."""
    while process.poll() is None:
        total = 0
        try:
            root = psutil.Process(process.pid)
            for member in (root, *root.children(recursive=True)):
                total += member.memory_info().rss
        except psutil.NoSuchProcess:
            pass
        peaks.append(total)
        time.sleep(0.05)


def rates(examples: int, tokens: int, measured: Measured) -> dict:
    return {
        "examples": examples,
        "tokens": tokens,
        "user_s": round(measured.user_s, 2),
        "system_s": round(measured.system_s, 2),
        "wall_s": round(measured.wall_s, 2),
        "peak_mb": round(measured.peak_mb),
        "examples_per_user_s": round(examples / measured.user_s, 1),
        "tokens_per_user_s": round(tokens / measured.user_s),
        "tokens_per_wall_s": round(tokens / measured.wall_s),
    }


def medians(rows: list[dict]) -> dict:
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def count_tokens(path: Path) -> tuple[int, int]:
    """The number of examples in a file, and of their tokens without padding."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before the import
    import tensorflow as tf

    examples = tokens = 0
    for record in read_records(path):
        examples += 1
        features = tf.train.Example.FromString(record).features.feature
        tokens += sum(features["input_mask"].int64_list.value)
    return examples, tokens


def breakdown(settings: BenchmarkSettings, text: Path, folder: Path) -> dict:
    """Measures the CPU time of each step of preparation on the first documents of the text."""
    tokenizer = AlbertTokenizer(settings.spm_model_file)
    steps: defaultdict[str, float] = defaultdict(float)

    def step(name: str, run: Callable[[], Iterable]) -> list:
        begin = time.process_time()
        results = list(run())
        steps[name] += time.process_time() - begin
        return results

    documents = step("read", lambda: read_documents([text]))[:50]
    steps["read"] *= sum(d.num_bytes for d in documents) / text.stat().st_size
    encoded = step("tokenize", lambda: (tokenizer.encode_batch(list(d.sentences)) for d in documents))
    masking = MaskingSettings.of(prepare_settings(settings))
    features = prepare_settings(settings).features
    vocabulary = MaskingVocabulary.of(tokenizer)
    records: list[bytes] = []
    rows: list[tuple[int, ...]] = []
    tokens = 0
    for document, sentences in zip(documents, encoded, strict=True):
        ids = [sentence for sentence in sentences if len(sentence)]
        for duplicate in range(settings.dupe_factor):
            (rng,) = step("segment", lambda d=document, i=duplicate: [document_generator(d, 0, i)])
            pairs = step(
                "segment", lambda s=ids, g=rng: segment_pairs(s, settings.max_seq_length - 3, 0.1, g)
            )
            examples = step(
                "mask", lambda p=pairs, g=rng: [masked_example(pair, vocabulary, masking, g) for pair in p]
            )
            serialized = step(
                "serialize",
                lambda e=examples: map(framed, serialize_batch(e, features)),
            )
            for example, record in zip(examples, serialized, strict=True):
                sizes = (len(record), len(example.input_ids), len(example.masked_lm_ids), example.swapped)
                rows.append((int(rng.integers(1 << 63)), *sizes))
                tokens += len(example.input_ids)
            records += serialized
    part = Part(folder, 0)
    step("write", lambda: [part.write(records, np.array(rows, INDEX), 1, {})])
    step("write", lambda: [merge_shard([part.shard(0)], folder / "shard")])
    total = sum(steps.values())
    return {
        "examples": len(records),
        "tokens_per_cpu_s": round(tokens / total),
        "microseconds_per_example": {name: round(s / len(records) * 1e6, 1) for name, s in steps.items()},
        "share": {name: round(s / total, 3) for name, s in steps.items()},
    }


def measure_memory(settings: BenchmarkSettings, megabytes: int, folder: Path) -> dict:
    """Measures preparation with two workers at one of --memory_megabytes."""
    text = write_text_of(settings, megabytes, folder / "large.txt")
    return run_ours(settings, text, folder, workers=2, dupe_factor=1)


def prepare_settings(settings: BenchmarkSettings) -> PrepareSettings:
    return PrepareSettings("", "", settings.spm_model_file, max_seq_length=settings.max_seq_length)


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, BenchmarkSettings, __doc__))
