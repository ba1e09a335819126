"""Measures the latency of ALBERT-base encoders in this and other libraries, with and without padding.

For example:

    pip install '.[peers,onnx,litert,int8]'
    python -m benchmarks.inference --output=benchmarks/results/inference.json
    python -m benchmarks.inference --shapes --spm_model_file=30k-clean.model \\
        --tasks sst-2=SST-2 squad1.1=dev-v1.1.json

A task's batches are its shuffled development set, each batch padded to its longest row. `albert_tf` calls the
exported SavedModel from Python; onnx_runtime and openvino are the portable model, litert runs the other file.
hugging_face_openvino is OpenVINO on Hugging Face's model. Each library runs in its own process, which is stopped
(SIGSTOP) except during its turns of one batch each.

--dtypes=int8 measures libraries in 8 bits, calibrated on a page of this repository, beside the SavedModel in
bfloat16.
"""

import json
import operator
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from albert_cli import program
from albert_tf.lab.peer_processes import Peer
from albert_tf.tasks.examples import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.task import find_task
from benchmarks.inference_peers import CALIBRATION_FILE, CALIBRATION_ROWS, OURS, PEERS, SAME_WEIGHTS
from benchmarks.peer_settings import PeerSettings, find_peer, parse_shapes
from benchmarks.task_data import make_features
from data_prep.errors import InputError, check_at_least
from data_prep.tokenizers.vocabulary import load_tokenizer

_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.05, "int8": 0.1}  # relative, for the mean absolute value
_TEXT = Path(__file__).parents[1] / "docs" / "architecture.md"  # to calibrate on


@dataclass(frozen=True)
class InferenceSettings(PeerSettings):
    """What is measured.

    Attributes:
      shapes: B,T of each batch without padding; without values, only the tasks are measured.
      tasks: TASK=DATA of each task whose development set gives the lengths of the rows.
      task_batch: number of rows in a task's batch.
      spm_model_file: SentencePiece model of the vocabulary, which tasks and int8 need.
      turns: number of batches that each library encodes for each shape or task.
    """

    peers: tuple[str, ...] = tuple(PEERS)
    dtypes: tuple[Literal["bfloat16", "float32", "int8"], ...] = ("bfloat16", "float32")
    logs: Path = Path("inference_logs")
    shapes: tuple[str, ...] = (
        "1,16",
        "1,128",
        "1,512",
        "8,16",
        "8,128",
        "8,512",
        "32,16",
        "32,128",
        "32,512",
    )
    tasks: tuple[str, ...] = ()
    task_batch: int = 8
    spm_model_file: str | None = None
    turns: int = 10

    def __post_init__(self):
        self.check_peers(PEERS)
        check_at_least(1, self, "task_batch", "turns")
        parse_shapes(self.shapes, "BT", "8,128")
        if not self.shapes and not self.tasks:
            raise InputError("--shapes without values needs --tasks to measure.")
        if wrong := [task for task in self.tasks if "=" not in task]:
            raise InputError(f"--tasks must be TASK=DATA, such as sst-2=SST-2. Received {wrong[0]}.")
        if self.tasks and not self.spm_model_file:
            raise InputError("--tasks needs --spm_model_file, the vocabulary that gives the lengths of rows.")
        if "int8" in self.dtypes and not self.spm_model_file:
            raise InputError(
                "--dtypes=int8 needs --spm_model_file, the vocabulary of the text to calibrate on."
            )


@dataclass(frozen=True)
class Cell:
    """One line of the table: batches of rows with given lengths.

    Attributes:
      name: its title in the table.
      batches: the lengths of each batch's rows, in tokens; the turns cycle through the batches.
    """

    name: str
    batches: tuple[tuple[int, ...], ...]

    def request(self, turn: int) -> str:
        """The batch of a turn, as the libraries' processes read it."""
        lengths = self.batches[turn % len(self.batches)]
        return json.dumps({"lengths": lengths, "T": max(lengths)})

    @property
    def filled(self) -> float:
        """The share of tokens; the rest is padding."""
        return sum(map(sum, self.batches)) / sum(len(rows) * max(rows) for rows in self.batches)

    def tokens(self, turns: int) -> list[int]:
        """The number of tokens in each turn, without padding."""
        return [sum(self.batches[turn % len(self.batches)]) for turn in range(turns)]


def cells(settings: InferenceSettings) -> list[Cell]:
    """The cells of --shapes, then those of --tasks."""
    shapes = parse_shapes(settings.shapes, "BT", "8,128")
    full = [Cell(f"{B} x {T}", ((T,) * B,)) for B, T in shapes]
    return full + [task_cell(task, settings) for task in settings.tasks]


def task_cell(task_and_data: str, settings: InferenceSettings) -> Cell:
    """Shuffled batches of a task's development set; SQuAD's rows are windows of at most 384 tokens."""
    name, data = task_and_data.split("=", 1)
    task = find_task(name)
    if task.kind == "multiple_choice":
        raise InputError(
            f"--tasks must be tasks with one sequence per row. Received {name}, with several options."
        )
    tokenizer = load_tokenizer(settings.spm_model_file, None, True)
    examples = read_examples(task, data, "dev", Problems())
    B, order = settings.task_batch, np.random.default_rng(0).permutation(len(examples))
    chosen = [examples[row] for row in order[: B * settings.turns]]
    lengths = [len(arrays["input_ids"]) for arrays in make_features(task, chosen, tokenizer, 512)]
    rows = [tuple(lengths[i : i + B]) for i in range(0, len(lengths) - B + 1, B)]
    if not rows:
        raise InputError(f"--tasks needs data of at least {B} rows. Received {data} with {len(lengths)}.")
    return Cell(f"{name}, {B} rows", tuple(rows))


def export_all(folder: Path, settings: InferenceSettings) -> dict[str, int]:
    """Exports an ALBERT-base with random weights in all formats; returns the sizes in bytes."""
    from albert_tf.checkpoints.names import parameters
    from albert_tf.checkpoints.stored import StoredModel
    from albert_tf.checkpoints.tf1 import write_tf1
    from albert_tf.config import AlbertConfig
    from albert_tf.conversion.convert import convert
    from export.run import export_for_runtime, export_model

    config, rng = AlbertConfig(), np.random.default_rng(0)
    # Biases and scales are random too, because converters remove additions of 0 and multiplications by 1.
    weights = {
        row.ours: (0.02 * rng.standard_normal(row.shape) + row.ours.endswith("gamma")).astype("float32")
        for row in parameters(config, "tf1")
    }
    source = folder / "source"
    source.mkdir()
    write_tf1(StoredModel("run", folder, config, weights), source)
    for dtype in ("float32", "bfloat16"):
        export_model(source, folder / f"saved_model_{dtype}", "encoder", dtype)
    for runtime in ("onnx", "litert"):
        export_for_runtime(source, folder / runtime, runtime)
    convert(source, folder / "huggingface", "huggingface", verify=False)
    if "int8" in settings.dtypes:
        examples = write_calibration(folder, str(settings.spm_model_file))
        export_for_runtime(source, folder / "onnx_int8", "onnx", "int8")
        export_for_runtime(source, folder / "onnx_int8-static", "onnx", "int8-static", str(examples))
    exports = [path for path in folder.iterdir() if path.is_dir() and path != source]
    return {
        path.name: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in exports
    }


def write_calibration(folder: Path, vocabulary: str) -> Path:
    """Writes examples to calibrate on, and their rows for other libraries; returns the examples' file."""
    from data_prep.examples.settings import PrepareSettings
    from data_prep.prepare.local import prepare
    from data_prep.reading.dataset import pretraining_dataset
    from data_prep.reading.example_files import ExampleFiles

    file = folder / "calibration" / "page.tfrecord"
    flags = {"input_format": "prose", "spm_model_file": vocabulary, "max_seq_length": 128, "dupe_factor": 1}
    prepare(PrepareSettings(input_file=str(_TEXT), output_file=str(file), **flags))
    examples = pretraining_dataset(ExampleFiles.read([file]), batch_size=CALIBRATION_ROWS, repeat=False)
    batch = next(iter(examples))
    names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "token_type_ids"}
    np.savez(folder / CALIBRATION_FILE, **{theirs: batch[ours] for theirs, ours in names.items()})
    return file


def measure(dtype: str, rows: list[Cell], files: Path, settings: InferenceSettings) -> Iterator[dict]:
    """Measures all libraries in turns; after each cell, yields what is measured so far."""
    first = rows[0].request(0)
    command = ["-m", "benchmarks.inference_peers"]
    started = [
        Peer.start(
            name,
            [settings.interpreter(name), *command, name, "--dtype", dtype, "--files", str(files)],
            settings.logs,
            first,
        )
        for name in settings.peers
    ]
    peers = [peer for peer in started if peer]
    starts = {
        peer.name: {"start_seconds": peer.first_step_seconds, "load_seconds": peer.steps[0]["load_seconds"]}
        for peer in peers
    }
    filled = {cell.name: round(cell.filled, 3) for cell in rows}
    run: dict[str, Any] = {"dtype": dtype, "starts": starts, "filled": filled, "cells": {}}
    for cell in rows:
        for turn in range(len(cell.batches)):  # not measured: a library may compile for a new shape
            peers = [peer for peer in peers if peer.step(cell.request(turn))]
        for peer in peers:
            peer.steps.clear()
        for turn in range(settings.turns):
            peers = [peer for peer in peers if peer.step(cell.request(turn))]
        run["cells"][cell.name] = compare(peers, cell.tokens(settings.turns), dtype)
        yield run
    for peer in peers:
        peer.stop()


def compare(peers: list[Peer], tokens: list[int], dtype: str) -> dict[str, dict]:
    """Each library's latency, tokens/s by the clock and by user CPU time, and ratios, in one cell.

    Ratios are medians over turns, within which the libraries run seconds apart. `seconds_of_albert_tf` is a
    library's time relative to albert_tf's; `times_best_peer` is how many times faster it is than the fastest of
    the libraries that do not run what `albert export` wrote.
    """
    ours = find_peer(peers)
    seconds = {peer.name: [step["seconds"] for step in peer.steps] for peer in peers}
    others = [name for name in seconds if name not in OURS and name != "tensorflow_products"]
    best = min(others, key=lambda name: statistics.median(seconds[name]), default=None)
    rows = {}
    for peer in peers:
        rows[peer.name] = {
            "median_milliseconds": 1000 * statistics.median(seconds[peer.name]),
            "tokens_per_second": statistics.median(map(operator.truediv, tokens, seconds[peer.name])),
            # Over all turns, because a short batch takes too few of the ticks that count CPU time.
            "tokens_per_user_second": sum(tokens)
            / max(1e-9, sum(step["user_seconds"] for step in peer.steps)),
            "peak_megabytes": max(step["peak_megabytes"] for step in peer.steps),
            "agrees": agrees(peer, ours, dtype),
            "seconds": [round(each, 6) for each in seconds[peer.name]],
            "user_seconds": [round(step["user_seconds"], 6) for step in peer.steps],
        }
        if best:
            ratios = map(operator.truediv, seconds[best], seconds[peer.name])
            rows[peer.name]["times_best_peer"] = statistics.median(ratios)
        for name in ("seconds", "user_seconds"):
            ratios = [
                theirs[name] / max(1e-9, mine[name])
                for theirs, mine in zip(peer.steps, ours.steps, strict=True)
            ]
            rows[peer.name][f"{name}_of_albert_tf"] = statistics.median(ratios)
    return rows


def agrees(peer: Peer, ours: Peer, dtype: str) -> bool | None:
    """Whether a library's outputs equal albert_tf's within the tolerance; None if it has other weights."""
    if peer.name not in SAME_WEIGHTS:
        return None
    pairs = [(theirs["value"], mine["value"]) for theirs, mine in zip(peer.steps, ours.steps, strict=True)]
    return all(abs(theirs - mine) < _TOLERANCE[dtype] * mine for theirs, mine in pairs)


def latency_table(run: dict) -> str:
    """A run as a Markdown table: tokens/s, and in brackets the time as a multiple of albert_tf's.

    The last column is how many times as fast as the fastest peer the fastest of our routes is.
    """
    names = list(run["starts"])
    head = " | ".join([*names, "times best peer"])
    lines = [f"{run['dtype']}", "", f"| | {head} |", "|---" * (len(names) + 2) + "|"]
    for title, key in (("start to first batch, s", "start_seconds"), ("load, s", "load_seconds")):
        lines.append(
            f"| {title} | " + " | ".join(f"{run['starts'][name][key]:.1f}" for name in names) + " | |"
        )
    for cell, rows in run["cells"].items():
        shown = [
            f"{row['tokens_per_second']:.0f} ({row['seconds_of_albert_tf']:.2f})"
            + ("" if row["agrees"] is not False else " differs")
            if (row := rows.get(name))
            else "died"
            for name in names
        ]
        times = [
            row["times_best_peer"] for name, row in rows.items() if name in OURS and "times_best_peer" in row
        ]
        shown.append(f"{max(times):.2f}" if times else "")
        lines.append(f"| {cell}, {run['filled'][cell]:.0%} tokens | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def main(settings: InferenceSettings) -> None:
    """Measures all libraries and prints a table for each dtype."""
    measured = cells(settings)
    report = settings.new_report()
    with tempfile.TemporaryDirectory() as folder:
        report |= {"bytes": export_all(Path(folder), settings), "runs": []}
        print("\n".join(f"{name}: {size:,} bytes" for name, size in report["bytes"].items()), flush=True)
        for dtype in settings.dtypes:
            report["runs"].append({"dtype": dtype})
            for run in measure(dtype, measured, Path(folder), settings):
                report["runs"][-1] = run
                settings.write(report)
            print(latency_table(report["runs"][-1]), flush=True)


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, InferenceSettings, __doc__))
