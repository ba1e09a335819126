"""Examples per second and core of the pretraining reader, masked while preparing or while reading.

python -m benchmarks.reader --output=reader.json
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import tensorflow as tf

from data_prep.examples.document_examples import serialize
from data_prep.examples.manifest import ExampleCounts, Manifest, Shard, VocabularyFacts
from data_prep.examples.masking import MaskingVocabulary, masked_example, unmasked_example
from data_prep.examples.segments import SegmentPair
from data_prep.examples.settings import PrepareSettings
from data_prep.reading.dataset import pretraining_dataset
from data_prep.reading.example_files import ExampleFiles

V, SYMBOLS = 30_000, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=4096)
    parser.add_argument("--max_seq_length", type=int, default=512)
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--output", type=Path)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: write(Path(folder) / kind, kind, flags) for kind in ("static", "dynamic")}
        runs: dict[str, list] = {kind: [] for kind in files}
        for _ in range(flags.runs):  # interleaved: other work on the machine hits both alike
            for kind, path in files.items():
                runs[kind].append(measure(path, flags))
    rates = {kind: statistics.median(rate for rate, _ in found) for kind, found in runs.items()}
    per_core = {kind: statistics.median(rate for _, rate in found) for kind, found in runs.items()}
    report = {
        "max_seq_length": flags.max_seq_length,
        "batch_size": flags.batch_size,
        "cores": os.cpu_count(),
        "examples_per_second": {kind: round(rate) for kind, rate in rates.items()},
        "examples_per_cpu_second": {kind: round(rate) for kind, rate in per_core.items()},
    }
    text = json.dumps(report, indent=2)
    print(text)
    if flags.output:
        flags.output.write_text(text + "\n", encoding="utf-8")


def write(path: Path, kind: str, flags: argparse.Namespace) -> Path:
    """Writes full-length examples of random pieces, 7 in 10 of which start a word."""
    rng = np.random.default_rng(0)
    T = flags.max_seq_length
    replacements = np.arange(SYMBOLS, V, dtype=np.int32)
    vocabulary = MaskingVocabulary(2, 3, 4, rng.random(V) < 0.7, replacements)
    path.mkdir()
    file = path / "train.tfrecord"
    settings = PrepareSettings("", str(file), max_seq_length=T)
    masking = settings.masking_settings
    with tf.io.TFRecordWriter(str(file)) as writer:
        for _ in range(flags.examples):
            a, b = np.split(rng.choice(replacements, T - 3), [T // 2])
            pair = SegmentPair(a, b, False, 2)
            if kind == "static":
                writer.write(
                    serialize(masked_example(pair, vocabulary, masking, rng), T, settings.predictions)
                )
            else:
                writer.write(serialize(unmasked_example(pair, vocabulary), T, 0))
    facts = VocabularyFacts("", "", V, cls_id=2, sep_id=3, mask_id=4, special_ids=[*range(SYMBOLS)])
    shard = Shard(file.name, flags.examples, file.stat().st_size)
    Manifest(ExampleCounts.of(Counter()), settings, facts, [], [shard], {}).write(path)
    return file


def measure(path: Path, flags: argparse.Namespace) -> tuple[float, float]:
    """Examples per second of the clock, and of processor time, after one batch to warm up."""
    files = ExampleFiles.read([path])
    batches = iter(
        pretraining_dataset(files, batch_size=flags.batch_size, shuffle_seed=1, shuffle_window=1024)
    )
    next(batches)
    clock, processor = time.perf_counter(), time.process_time()
    steps = flags.examples // flags.batch_size
    for _ in range(steps):
        next(batches)
    count = steps * flags.batch_size
    return count / (time.perf_counter() - clock), count / (time.process_time() - processor)


if __name__ == "__main__":
    main()
