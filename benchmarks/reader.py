"""Measures examples per second and core of the pretraining reader, which draws pairs and masks while it reads.

For example:

    python -m benchmarks.reader --max_seq_length=128 --batch_size=64 --examples=8192

The text is random sentences of the vocabulary's words.
"""

import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_cli import program
from albert_tf.checkpoints.sources import SHIPPED_FOLDER
from benchmarks.peers import write_report
from benchmarks.report import describe_machine
from data_prep.errors import check_at_least
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.prepare.local import prepare
from data_prep.reading.dataset import pretraining_dataset
from data_prep.reading.example_files import ExampleFiles
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer

_LONGEST_SENTENCE = 40  # words
_DOCUMENT = 200  # sentences
KINDS: dict[str, dict[str, Any]] = {  # the flags of `albert prepare`
    "static": {},
    "dynamic masks": {"masking": "dynamic", "sentence_objective": "nsp"},
    "dynamic pairs and masks": {"masking": "dynamic"},
}


@dataclass(frozen=True)
class ReaderSettings:
    """What is measured.

    Attributes:
      examples: number of examples that a run reads; the files hold about as many.
      max_seq_length: length of an example in tokens, T.
      batch_size: number of examples per batch.
      runs: number of runs; the median is reported.
      spm_model_file: SentencePiece model of the vocabulary. Default: that of the model in the package.
      output: JSON file to write the results to.
    """

    examples: int = 4096
    max_seq_length: int = 512
    batch_size: int = 256
    runs: int = 3
    spm_model_file: Path = SHIPPED_FOLDER / "albert_small_en" / "spiece.model"
    output: Path | None = None

    def __post_init__(self):
        check_at_least(1, self, "batch_size", "runs")
        check_at_least(self.batch_size, self, "examples")


def main(settings: ReaderSettings) -> None:
    """Measures all kinds of files in turns and prints the result."""
    report: dict[str, Any] = {**describe_machine(), "max_seq_length": settings.max_seq_length}
    with tempfile.TemporaryDirectory() as folder:
        text = write_sentences(Path(folder) / "text.txt", settings)
        files = {kind: write(Path(folder) / kind, text, KINDS[kind], settings) for kind in KINDS}
        report["bytes_per_example"] = {
            kind: round(read.num_bytes / read.num_examples) for kind, read in files.items()
        }
        runs = [{kind: measure(read, settings) for kind, read in files.items()} for _ in range(settings.runs)]
    for place, name in enumerate(("examples_per_second", "examples_per_cpu_second")):
        report[name] = {kind: round(statistics.median(run[kind][place] for run in runs)) for kind in KINDS}
    print(json.dumps(report, indent=2))
    write_report(settings.output, report)


def write_sentences(file: Path, settings: ReaderSettings) -> Path:
    """Writes documents of random sentences, as long as the examples together; returns their file."""
    rng = np.random.default_rng(0)
    pieces = AlbertTokenizer(str(settings.spm_model_file)).pieces
    words = [piece[1:] for piece in pieces if piece.startswith("\u2581") and piece[1:].isalpha()]
    tokens = settings.examples * settings.max_seq_length
    lengths = rng.integers(1, _LONGEST_SENTENCE + 1, size=2 * tokens // _LONGEST_SENTENCE)
    sentences = [" ".join(rng.choice(words, length)) for length in lengths]
    documents = ("\n".join(sentences[i : i + _DOCUMENT]) for i in range(0, len(sentences), _DOCUMENT))
    file.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return file


def write(folder: Path, text: Path, flags: dict[str, Any], settings: ReaderSettings) -> ExampleFiles:
    """Prepares the text in one of the layouts."""
    output = folder / "train.tfrecord"
    prepare_settings = PrepareSettings(
        str(text),
        str(output),
        str(settings.spm_model_file),
        max_seq_length=settings.max_seq_length,
        dupe_factor=1,
        **flags,
    )
    prepare(prepare_settings, show_progress=False)
    return ExampleFiles.read([output])


def measure(files: ExampleFiles, settings: ReaderSettings) -> tuple[float, float]:
    """Examples per second by the clock and by processor time, after one batch to warm up."""
    batches = iter(
        pretraining_dataset(files, batch_size=settings.batch_size, shuffle_seed=1, shuffle_window=1024)
    )
    next(batches)
    clock, processor = time.perf_counter(), time.process_time()
    count = settings.examples // settings.batch_size * settings.batch_size
    for _ in range(count // settings.batch_size):
        next(batches)
    return count / (time.perf_counter() - clock), count / (time.process_time() - processor)


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, ReaderSettings, __doc__))
