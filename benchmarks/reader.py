"""Measures examples per second and core of the pretraining reader, which draws pairs and masks while it reads.

For example:

    python -m benchmarks.reader --input_file='books/*.md' --spm_model_file=30k-clean.model --max_seq_length=128
"""

import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_cli import program
from benchmarks.peers import write_report
from benchmarks.report import describe_machine
from data_prep.errors import check_at_least
from data_prep.examples.settings import PrepareSettings
from data_prep.prepare.local import prepare
from data_prep.reading.dataset import pretraining_dataset
from data_prep.reading.example_files import ExampleFiles

KINDS: dict[str, dict[str, Any]] = {  # the flags of `albert prepare`
    "static": {},
    "dynamic masks": {"masking": "dynamic", "sentence_objective": "nsp"},
    "dynamic pairs and masks": {"masking": "dynamic"},
}


@dataclass(frozen=True)
class ReaderSettings:
    """What is measured.

    Attributes:
      input_file: text in prose; globs and commas are allowed.
      spm_model_file: SentencePiece model of the vocabulary.
      max_seq_length: length of an example in tokens, T.
      batch_size: number of examples per batch.
      batches: number of batches that a run reads.
      runs: number of runs; the median is reported.
      output: JSON file to write the results to.
    """

    input_file: str
    spm_model_file: str
    max_seq_length: int = 512
    batch_size: int = 64
    batches: int = 32
    runs: int = 3
    output: Path | None = None

    def __post_init__(self):
        check_at_least(1, self, "batch_size", "batches", "runs")


def main(settings: ReaderSettings) -> None:
    """Measures all kinds of files in turns and prints the result."""
    report: dict[str, Any] = {**describe_machine(), "max_seq_length": settings.max_seq_length}
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: write(Path(folder) / kind, KINDS[kind], settings) for kind in KINDS}
        report["bytes_per_example"] = {
            kind: round(read.num_bytes / read.num_examples) for kind, read in files.items()
        }
        runs = [{kind: measure(read, settings) for kind, read in files.items()} for _ in range(settings.runs)]
    for place, name in enumerate(("examples_per_second", "examples_per_cpu_second")):
        report[name] = {kind: round(statistics.median(run[kind][place] for run in runs)) for kind in KINDS}
    print(json.dumps(report, indent=2))
    write_report(settings.output, report)


def write(folder: Path, flags: dict[str, Any], settings: ReaderSettings) -> ExampleFiles:
    """Prepares the text in one of the layouts."""
    output = folder / "train.tfrecord"
    text: dict[str, Any] = {"input_file": settings.input_file, "input_format": "prose", "dupe_factor": 1}
    text |= {"spm_model_file": settings.spm_model_file, "max_seq_length": settings.max_seq_length}
    prepare(PrepareSettings(output_file=str(output), **text, **flags), show_progress=False)
    return ExampleFiles.read([output])


def measure(files: ExampleFiles, settings: ReaderSettings) -> tuple[float, float]:
    """Examples per second by the clock and by processor time, after one batch to warm up."""
    batches = iter(
        pretraining_dataset(files, batch_size=settings.batch_size, shuffle_seed=1, shuffle_window=1024)
    )
    next(batches)
    clock, processor = time.perf_counter(), time.process_time()
    for _ in range(settings.batches):
        next(batches)
    count = settings.batches * settings.batch_size
    return count / (time.perf_counter() - clock), count / (time.process_time() - processor)


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, ReaderSettings, __doc__))
