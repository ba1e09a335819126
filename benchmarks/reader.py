"""Examples per second and core of the pretraining reader, masked while preparing or while reading.

python -m benchmarks.reader --output=reader.json
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from data_prep.examples.document_examples import serialize
from data_prep.examples.masking import MaskingSettings, MaskingVocabulary, masked_example, unmasked_example
from data_prep.examples.segments import SegmentPair
from data_prep.reading.dataset import pretraining_dataset

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
    settings = MaskingSettings(int(np.ceil(0.15 * T)))
    predictions = settings.max_predictions_per_seq
    replacements = np.arange(SYMBOLS, V, dtype=np.int32)
    vocabulary = MaskingVocabulary(2, 3, 4, rng.random(V) < 0.7, replacements)
    path.mkdir()
    file = path / "train.tfrecord"
    with tf.io.TFRecordWriter(str(file)) as writer:
        for _ in range(flags.examples):
            a, b = np.split(rng.choice(replacements, T - 3), [T // 2])
            pair = SegmentPair(a, b, False, 2)
            if kind == "static":
                writer.write(serialize(masked_example(pair, vocabulary, settings, rng), T, predictions))
            else:
                writer.write(serialize(unmasked_example(pair, vocabulary), T, 0))
    manifest = {
        "shards": [{"file": file.name}],
        "settings": {
            "max_predictions_per_seq": predictions,
            "masked_lm_prob": settings.masked_lm_prob,
            "ngram": settings.ngram,
            "favor_shorter_ngram": True,
            "do_whole_word_mask": True,
        },
        "vocabulary": {"size": V, "cls_id": 2, "sep_id": 3, "mask_id": 4, "special_ids": [*range(SYMBOLS)]},
    }
    (path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return file


def measure(path: Path, flags: argparse.Namespace) -> tuple[float, float]:
    """Examples per second of the clock, and of processor time, after one batch to warm up."""
    T = flags.max_seq_length
    batches = iter(
        pretraining_dataset(
            [path],
            batch_size=flags.batch_size,
            max_seq_length=T,
            max_predictions_per_seq=int(np.ceil(0.15 * T)),
            shuffle_seed=1,
            shuffle_window=1024,
        )
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
