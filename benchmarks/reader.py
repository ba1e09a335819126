"""Measures examples per second and core of the pretraining reader, which draws pairs and masks while it reads.

For example:

    python -m benchmarks.reader --max_seq_length=128 --batch_size=64 --output=reader.json
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_cli import program
from data_prep.errors import check_at_least
from data_prep.examples.document_examples import ChunkExample, serialize_batch
from data_prep.examples.manifest import ExampleCounts, Manifest, Shard, VocabularyFacts
from data_prep.examples.masking import MaskingSettings, MaskingVocabulary, masked_example, unmasked_example
from data_prep.examples.segments import sentence_chunks, sentence_order_pair
from data_prep.examples.settings import PrepareSettings
from data_prep.files import write_json
from data_prep.reading.dataset import pretraining_dataset
from data_prep.reading.example_files import ExampleFiles

V, SYMBOLS = 30_000, 5
LONGEST_SENTENCE = 40  # tokens
KINDS = {  # the flags of `albert prepare`
    "static": {},
    "dynamic masks": {"masking": "dynamic", "sentence_objective": "nsp"},
    "dynamic pairs and masks": {"masking": "dynamic"},
}


@dataclass(frozen=True)
class ReaderSettings:
    """What is measured.

    Attributes:
      examples: number of examples in each file.
      max_seq_length: length of an example in tokens, T.
      batch_size: number of examples per batch.
      runs: number of runs; the median is reported.
      output: JSON file to write the results to.
    """

    examples: int = 4096
    max_seq_length: int = 512
    batch_size: int = 256
    runs: int = 3
    output: Path | None = None

    def __post_init__(self):
        check_at_least(1, self, "batch_size", "runs")
        check_at_least(self.batch_size, self, "examples")


def main(settings: ReaderSettings) -> None:
    """Measures all kinds of files and prints the result."""
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: write(Path(folder) / kind, kind, settings) for kind in KINDS}
        sizes = {kind: round(path.stat().st_size / settings.examples) for kind, path in files.items()}
        runs: dict[str, list] = {kind: [] for kind in files}
        for _ in range(settings.runs):  # interleaved, so that other work on the machine affects all alike
            for kind, path in files.items():
                runs[kind].append(measure(path, settings))
    rates = {kind: statistics.median(rate for rate, _ in found) for kind, found in runs.items()}
    per_core = {kind: statistics.median(rate for _, rate in found) for kind, found in runs.items()}
    report: dict = {
        "max_seq_length": settings.max_seq_length,
        "batch_size": settings.batch_size,
        "cores": os.cpu_count(),
        "examples_per_second": {kind: round(rate) for kind, rate in rates.items()},
        "examples_per_cpu_second": {kind: round(rate) for kind, rate in per_core.items()},
        "bytes_per_example": sizes,
    }
    print(json.dumps(report, indent=2))
    if settings.output:
        settings.output.parent.mkdir(parents=True, exist_ok=True)
        write_json(settings.output, report)


def write(path: Path, kind: str, settings: ReaderSettings) -> Path:
    """Writes the same chunks of random sentences in one of the layouts; 70% of the pieces start a word."""
    rng = np.random.default_rng(0)
    T = settings.max_seq_length
    replacements = np.arange(SYMBOLS, V, dtype=np.int32)
    vocabulary = MaskingVocabulary(2, 3, 4, rng.random(V) < 0.7, replacements)
    path.mkdir()
    file = path / "train.tfrecord"
    flags: dict = KINDS[kind]
    prepare_settings = PrepareSettings("", str(file), max_seq_length=T, **flags)
    lengths = rng.integers(1, LONGEST_SENTENCE + 1, size=settings.examples * (2 + T // 10))
    document = [rng.choice(replacements, length) for length in lengths]
    chunks = islice(sentence_chunks(document, T - 3, 0.0, rng), settings.examples)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for chunk in chunks:
            pair = sentence_order_pair(chunk, T - 3, rng)
            if kind == "static":
                example = masked_example(pair, vocabulary, MaskingSettings.of(prepare_settings), rng)
            elif kind == "dynamic masks":
                example = unmasked_example(pair, vocabulary)
            else:
                example = ChunkExample(chunk, vocabulary.starts_word[chunk.ids].astype(np.int32))
            writer.write(serialize_batch([example], prepare_settings.features)[0])
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
