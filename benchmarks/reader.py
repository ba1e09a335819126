"""Examples per second and core of the pretraining reader, with masks from preparation or drawn while reading.

python -m benchmarks.reader --output=reader.json
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_cli import program
from data_prep.examples.document_examples import serialize
from data_prep.examples.manifest import ExampleCounts, Manifest, Shard, VocabularyFacts
from data_prep.examples.masking import MaskingVocabulary, masked_example, unmasked_example
from data_prep.examples.segments import SegmentPair
from data_prep.examples.settings import PrepareSettings
from data_prep.files import write_json
from data_prep.reading.dataset import pretraining_dataset
from data_prep.reading.example_files import ExampleFiles

V, SYMBOLS = 30_000, 5


@dataclass(frozen=True)
class ReaderSettings:
    """What is measured.

    Attributes:
      examples: the number of examples in each file.
      max_seq_length: T.
      batch_size: B.
      runs: the number of runs, whose median counts.
      output: a JSON file for the results.
    """

    examples: int = 4096
    max_seq_length: int = 512
    batch_size: int = 256
    runs: int = 3
    output: Path | None = None


def main(settings: ReaderSettings) -> None:
    """Measures both kinds of files and prints the result."""
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: write(Path(folder) / kind, kind, settings) for kind in ("static", "dynamic")}
        runs: dict[str, list] = {kind: [] for kind in files}
        for _ in range(settings.runs):  # interleaved, so that other work on the machine affects both alike
            for kind, path in files.items():
                runs[kind].append(measure(path, settings))
    rates = {kind: statistics.median(rate for rate, _ in found) for kind, found in runs.items()}
    per_core = {kind: statistics.median(rate for _, rate in found) for kind, found in runs.items()}
    report = {
        "max_seq_length": settings.max_seq_length,
        "batch_size": settings.batch_size,
        "cores": os.cpu_count(),
        "examples_per_second": {kind: round(rate) for kind, rate in rates.items()},
        "examples_per_cpu_second": {kind: round(rate) for kind, rate in per_core.items()},
    }
    print(json.dumps(report, indent=2))
    if settings.output:
        write_json(settings.output, report)


def write(path: Path, kind: str, settings: ReaderSettings) -> Path:
    """Writes full-length examples of random pieces, 70% of which start a word."""
    rng = np.random.default_rng(0)
    T = settings.max_seq_length
    replacements = np.arange(SYMBOLS, V, dtype=np.int32)
    vocabulary = MaskingVocabulary(2, 3, 4, rng.random(V) < 0.7, replacements)
    path.mkdir()
    file = path / "train.tfrecord"
    prepare_settings = PrepareSettings("", str(file), max_seq_length=T)
    masking = prepare_settings.masking_settings
    with tf.io.TFRecordWriter(str(file)) as writer:
        for _ in range(settings.examples):
            a, b = np.split(rng.choice(replacements, T - 3), [T // 2])
            pair = SegmentPair(a, b, False, 2)
            if kind == "static":
                writer.write(
                    serialize(masked_example(pair, vocabulary, masking, rng), T, prepare_settings.predictions)
                )
            else:
                writer.write(serialize(unmasked_example(pair, vocabulary), T, 0))
    facts = VocabularyFacts("", "", V, cls_id=2, sep_id=3, mask_id=4, special_ids=[*range(SYMBOLS)])
    shard = Shard(file.name, settings.examples, file.stat().st_size)
    Manifest(ExampleCounts.of(Counter()), prepare_settings, facts, [], [shard], {}).write(path)
    return file


def measure(path: Path, settings: ReaderSettings) -> tuple[float, float]:
    """Returns examples per second by the clock and by processor time, after one batch to warm up."""
    files = ExampleFiles.read([path])
    batches = iter(
        pretraining_dataset(files, batch_size=settings.batch_size, shuffle_seed=1, shuffle_window=1024)
    )
    next(batches)
    clock, processor = time.perf_counter(), time.process_time()
    steps = settings.examples // settings.batch_size
    for _ in range(steps):
        next(batches)
    count = steps * settings.batch_size
    return count / (time.perf_counter() - clock), count / (time.process_time() - processor)


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, ReaderSettings, __doc__))
