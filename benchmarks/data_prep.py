"""How fast `albert prepare` is and how much memory it takes, and the original beside it; one JSON a run.

    python -m benchmarks.data_prep --input_file='books/*.md' --spm_model_file=30k-clean.model \\
        --original_repo=google-research-albert --original_python=py37/bin/python

The original's create_pretraining_data.py needs a Python 3.7 with tensorflow==1.15.2 and sentencepiece. Runs take
turns, so that whatever else the machine does falls on all of them. Rates are per second of user CPU time, that of
all processes together: they say what a core does, however busy the machine is. The wall's rates are there too.
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
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from albert_cli import program
from data_prep.examples.document_examples import document_generator, serialize_batch
from data_prep.examples.masking import MaskingVocabulary, masked_example
from data_prep.examples.segments import segment_pairs
from data_prep.examples.settings import PrepareSettings
from data_prep.files import write_text
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
      input_file: prose, UTF-8; files, globs, commas. It is repeated where more text is asked for.
      spm_model_file: the SentencePiece model.
      output: the JSON file.
      megabytes: how much text the timed runs prepare.
      rounds: how often each of them runs.
      max_seq_length: T.
      dupe_factor: as in `albert prepare`.
      original_repo: a checkout of google-research/albert.
      original_python: the interpreter that runs it.
      original_megabytes: how much text it gets; its rate does not depend on that, and it is slow.
      memory_megabytes: sizes of text, separated by commas, whose peak memory is measured with two workers and
        `dupe_factor` 1.
    """

    input_file: str
    spm_model_file: str
    output: Path = Path("benchmarks/results/data_prep.json")
    megabytes: int = 20
    rounds: int = 3
    max_seq_length: int = 512
    dupe_factor: int = 10
    original_repo: Path | None = None
    original_python: Path | None = None
    original_megabytes: int = 2
    memory_megabytes: str = ""


@dataclass(frozen=True)
class Measured:
    """One run of a command: seconds, and the most memory that all its processes together had resident."""

    wall_s: float
    user_s: float
    system_s: float
    peak_mb: float


def main(settings: BenchmarkSettings) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = write_text_of(settings, settings.megabytes, folder / "text.txt")
        runs: dict[str, Callable[[], dict]] = {
            "1 worker": lambda: run_ours(settings, text, folder, workers=1),
            "2 workers": lambda: run_ours(settings, text, folder, workers=2),
        }
        if settings.original_repo:
            small = write_text_of(settings, settings.original_megabytes, folder / "small.txt")
            runs["original"] = lambda: run_original(settings, small, folder)
        results: dict[str, list[dict]] = {run: [] for run in runs}
        for number in range(settings.rounds):
            for run, measure in runs.items():
                results[run].append(measure())
                print(f"round {number + 1}, {run}: {results[run][-1]}", flush=True)
        report: dict = {
            "machine": {"cpu": cpu_name(), "cores": os.cpu_count(), "python": platform.python_version()},
            "settings": {
                "megabytes": settings.megabytes,
                "original_megabytes": settings.original_megabytes if settings.original_repo else None,
                "max_seq_length": settings.max_seq_length,
                "dupe_factor": settings.dupe_factor,
            },
            "medians": {run: medians(rows) for run, rows in results.items()},
            "breakdown": breakdown(settings, text, folder),
            "memory": measure_memory(settings, folder),
            "runs": results,
        }
    if settings.original_repo:
        theirs = report["medians"]["original"]
        report["times_the_original"] = {
            unit: report["medians"]["1 worker"][unit] / theirs[unit]
            for unit in ("tokens_per_user_s", "examples_per_user_s")
        }
    settings.output.parent.mkdir(parents=True, exist_ok=True)
    write_text(settings.output, json.dumps(report, indent=2) + "\n")
    print(json.dumps({name: value for name, value in report.items() if name != "runs"}, indent=2))


def write_text_of(settings: BenchmarkSettings, megabytes: int, path: Path) -> Path:
    """Writes so much of the text, repeated as needed, as one sentence a line."""
    left = megabytes * 1_000_000
    with path.open("wb") as file:
        while left > 0:
            for document in read_documents(expand_files(settings.input_file), "prose"):
                # Books are long; 200 sentences or so make a document.
                for begin in range(0, len(document.sentences), 200):
                    sentences = document.sentences[begin : begin + 200]
                    left -= file.write(("\n".join(sentences) + "\n\n").encode())
                    if left <= 0:
                        return path
    return path


def run_ours(settings: BenchmarkSettings, text: Path, folder: Path, workers: int, **changes) -> dict:
    """One `albert prepare` as a user runs it, its start included."""
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
    command = [sys.executable, "-m", "albert_cli.cli", "prepare"]
    measured = measure([*command, *(f"--{name}={value}" for name, value in flags.items())], ROOT)
    counts = json.loads((folder / "ours" / "manifest.json").read_text(encoding="utf-8"))["counts"]
    return rates(counts["examples"], counts["example_tokens"], measured)


def run_original(settings: BenchmarkSettings, text: Path, folder: Path) -> dict:
    """One run of the original's script with the same lengths and the same number of predictions."""
    assert settings.original_repo and settings.original_python, "both, or neither"
    package = folder / "albert"  # its modules import each other as `albert.tokenization`
    if not package.exists():
        package.symlink_to(settings.original_repo.resolve())
    output = folder / "original.tfrecord"
    flags = {
        "input_file": text,
        "output_file": output,
        "spm_model_file": Path(settings.spm_model_file).resolve(),
        "vocab_file": Path(settings.spm_model_file).resolve().with_suffix(".vocab"),
        "max_seq_length": settings.max_seq_length,
        "max_predictions_per_seq": ours(settings).predictions,
        "dupe_factor": settings.dupe_factor,
    }
    command = [str(settings.original_python.absolute()), "-m", "albert.create_pretraining_data"]
    measured = measure([*command, *(f"--{name}={value}" for name, value in flags.items())], folder)
    return rates(*count_tokens(output), measured)


def measure(command: list[str], folder: Path) -> Measured:
    """Runs a command to its end; its children's times count with its own."""
    before = os.times()
    with chdir(folder):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
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
    """Notes what the process and its children have resident, 20 times a second."""
    while process.poll() is None:
        total = 0
        try:
            root = psutil.Process(process.pid)
            for one in (root, *root.children(recursive=True)):
                total += one.memory_info().rss
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
    """Examples of a file, and their tokens without padding."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before the import
    import tensorflow as tf

    examples = tokens = 0
    for record in read_records(path):
        examples += 1
        features = tf.train.Example.FromString(record).features.feature
        tokens += sum(features["input_mask"].int64_list.value)
    return examples, tokens


def breakdown(settings: BenchmarkSettings, text: Path, folder: Path) -> dict:
    """Where the time goes: seconds of CPU for each step in turn, on the first documents of the text."""
    tokenizer = AlbertTokenizer(settings.spm_model_file)
    steps: defaultdict[str, float] = defaultdict(float)

    def step(name: str, make: Callable[[], Iterable]) -> list:
        begin = time.process_time()
        made = list(make())
        steps[name] += time.process_time() - begin
        return made

    documents = step("read", lambda: read_documents([text]))[:50]
    steps["read"] *= sum(d.num_bytes for d in documents) / text.stat().st_size
    encoded = step("tokenize", lambda: (tokenizer.encode_batch(list(d.sentences)) for d in documents))
    masking = ours(settings).masking_settings
    predictions = masking.max_predictions_per_seq
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
            made = step(
                "serialize",
                lambda e=examples: map(framed, serialize_batch(e, settings.max_seq_length, predictions)),
            )
            for example, record in zip(examples, made, strict=True):
                sizes = (len(record), len(example.input_ids), len(example.masked_lm_ids), example.swapped)
                rows.append((int(rng.integers(1 << 63)), *sizes))
                tokens += len(example.input_ids)
            records += made
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


def measure_memory(settings: BenchmarkSettings, folder: Path) -> dict[str, dict]:
    """Peak memory of growing texts, with two workers."""
    found = {}
    for megabytes in map(int, filter(None, settings.memory_megabytes.split(","))):
        text = write_text_of(settings, megabytes, folder / "large.txt")
        found[f"{megabytes} MB"] = run_ours(settings, text, folder, workers=2, dupe_factor=1)
        print(f"memory, {megabytes} MB: {found[f'{megabytes} MB']}", flush=True)
    return found


def ours(settings: BenchmarkSettings) -> PrepareSettings:
    return PrepareSettings("", "", settings.spm_model_file, max_seq_length=settings.max_seq_length)


def cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, BenchmarkSettings, __doc__))
