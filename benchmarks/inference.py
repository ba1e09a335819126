"""Measures the latency of ALBERT-base encoders in this and other libraries, with and without padding.

For example:

    pip install '.[peers,onnx,litert,int8]'
    python -m benchmarks.inference --output=benchmarks/results/inference.json
    python -m benchmarks.inference --shapes --spm_model_file=30k-clean.model \\
        --tasks sst-2=SST-2 squad1.1=dev-v1.1.json

A task's batches are its shuffled development set, each batch padded to its longest row. `albert_tf` calls the
exported SavedModel from Python; onnx_runtime and openvino are the portable model.
hugging_face_openvino is OpenVINO on Hugging Face's model. Each library runs in its own process, which is stopped
(SIGSTOP) except during its turns of one batch each.

--dtypes=int8 measures libraries in 8 bits, calibrated on a page of this repository, beside the SavedModel in
bfloat16.
"""

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from albert_cli import program
from albert_tf.config import AlbertConfig
from albert_tf.tasks.choice.kind import OPTIONS
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.task import find_task
from benchmarks.batches import CALIBRATION_FILE
from benchmarks.peers import Library, PeerSettings, parse_shapes
from benchmarks.processes import Peer, take_turns
from benchmarks.report import OURS, compare, markdown_table
from benchmarks.task_data import make_features
from data_prep.errors import InputError, check_at_least
from data_prep.tokenizers.vocabulary import load_tokenizer

LIBRARIES = {
    OURS: Library("ours_exported:saved_model"),
    "onnx_runtime": Library("ours_exported:portable", {"engine": "onnxruntime"}),
    "openvino": Library("ours_exported:portable", {"engine": "openvino"}),
    "hugging_face": Library("hugging_face:inference", is_other=True),
    "hugging_face_compiled": Library("hugging_face:inference", {"compiled": True}, is_other=True),
    "hugging_face_openvino": Library("hugging_face:inference_on_openvino", is_other=True),
    "keras_hub": Library("keras_hub:inference", is_other=True),
}
_OTHER_WEIGHTS = ("keras_hub",)
_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.05, "int8": 0.1}  # relative, for the mean absolute value
_TEXT = Path(__file__).parents[1] / "docs" / "fidelity.md"  # to calibrate on
_CALIBRATION_ROWS = 64


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

    peers: tuple[str, ...] = tuple(LIBRARIES)
    dtypes: tuple[Literal["bfloat16", "float32", "int8"], ...] = ("bfloat16", "float32")
    shapes: tuple[str, ...] = tuple(f"{B},{T}" for B in (1, 8, 32) for T in (16, 128, 512))
    tasks: tuple[str, ...] = ()
    task_batch: int = 8
    spm_model_file: str | None = None
    turns: int = 10

    def __post_init__(self):
        self.check_peers(LIBRARIES)
        check_at_least(1, self, "task_batch", "turns")
        parse_shapes(self.shapes, "BT", "8,128")
        if not self.shapes and not self.tasks:
            raise InputError("--shapes without values needs --tasks to measure.")
        if wrong := [task for task in self.tasks if "=" not in task]:
            raise InputError(f"--tasks must be TASK=DATA, such as sst-2=SST-2. Received {wrong[0]}.")
        if (self.tasks or "int8" in self.dtypes) and not self.spm_model_file:
            raise InputError("--tasks and --dtypes=int8 need --spm_model_file, the vocabulary of their text.")


@dataclass(frozen=True)
class Cell:
    """One line of the table: batches of rows with given lengths.

    Attributes:
      name: its title in the table.
      batches: the lengths of each batch's rows, in tokens; the turns cycle through the batches.
    """

    name: str
    batches: tuple[tuple[int, ...], ...]

    def requests(self, turns: int) -> list[dict[str, Any]]:
        """The batch of each turn."""
        chosen = [self.batches[turn % len(self.batches)] for turn in range(turns)]
        return [{"lengths": lengths, "T": max(lengths)} for lengths in chosen]

    @property
    def filled(self) -> float:
        """The share of tokens; the rest is padding."""
        return sum(map(sum, self.batches)) / sum(len(rows) * max(rows) for rows in self.batches)


def main(settings: InferenceSettings) -> None:
    """Measures all libraries and prints a table for each dtype."""
    shapes = parse_shapes(settings.shapes, "BT", "8,128")
    cells = [Cell(f"{B} x {T}", ((T,) * B,)) for B, T in shapes]
    cells += [task_cell(task, settings) for task in settings.tasks]
    report, config = settings.report(), AlbertConfig()
    with tempfile.TemporaryDirectory() as folder:
        report["bytes"] = export_all(config, Path(folder), settings)
        print("\n".join(f"{name}: {size:,} bytes" for name, size in report["bytes"].items()), flush=True)
        for dtype in settings.dtypes:
            report["runs"].append({"dtype": dtype})
            for run in measure(config, dtype, cells, folder, settings):
                report["runs"][-1] = run
                settings.write(report)
            print(latency_table(report["runs"][-1]), flush=True)


def task_cell(task_and_data: str, settings: InferenceSettings) -> Cell:
    """Shuffled batches of a task's development set; SQuAD's rows are windows of at most 384 tokens."""
    name, data = task_and_data.split("=", 1)
    task = find_task(name)
    if task.kind is OPTIONS:
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


def export_all(config: AlbertConfig, folder: Path, settings: InferenceSettings) -> dict[str, int]:
    """Exports a model with random weights in all formats; returns the sizes in bytes."""
    from albert_tf.checkpoints.names import parameters
    from albert_tf.checkpoints.stored import StoredModel
    from albert_tf.checkpoints.tf1 import write_tf1
    from albert_tf.conversion.convert import convert
    from export.write import export_for_runtime, export_model

    rng = np.random.default_rng(0)
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
    from data_prep.examples.prepare_flags import PrepareSettings
    from data_prep.prepare.local import prepare
    from data_prep.reading.dataset import pretraining_dataset
    from data_prep.reading.example_files import ExampleFiles

    file = folder / "calibration" / "page.tfrecord"
    flags = {"input_format": "prose", "spm_model_file": vocabulary, "max_seq_length": 128, "dupe_factor": 1}
    prepare(PrepareSettings(input_file=str(_TEXT), output_file=str(file), **flags))
    examples = pretraining_dataset(ExampleFiles.read([file]), batch_size=_CALIBRATION_ROWS, repeat=False)
    batch = next(iter(examples))
    names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "token_type_ids"}
    np.savez(folder / CALIBRATION_FILE, **{theirs: batch[ours] for theirs, ours in names.items()})
    return file


def measure(
    config: AlbertConfig, dtype: str, cells: list[Cell], files: str, settings: InferenceSettings
) -> Iterator[dict[str, Any]]:
    """Measures all libraries in turns; after each cell, yields what is measured so far."""
    libraries = {name: LIBRARIES[name] for name in settings.peers}
    setup = {"files": files, "config": config.to_dict(), "dtype": dtype}
    peers = settings.start(libraries, setup, cells[0].requests(1)[0])
    starts = {
        peer.name: {
            "start_seconds": peer.first_turn_seconds,
            "load_seconds": peer.replies[0]["load_seconds"],
        }
        for peer in peers
    }
    filled = {cell.name: round(cell.filled, 3) for cell in cells}
    run: dict[str, Any] = {"dtype": dtype, "starts": starts, "filled": filled, "cells": {}}
    for cell in cells:
        peers = take_turns(peers, cell.requests(len(cell.batches)))  # a library may compile for a new shape
        for peer in peers:
            peer.replies.clear()
        requests = cell.requests(settings.turns)
        peers = take_turns(peers, requests)
        tokens = [sum(request["lengths"]) for request in requests]
        run["cells"][cell.name] = rows_of(peers, tokens, dtype)
        yield run
    for peer in peers:
        peer.stop()


def rows_of(peers: list[Peer], tokens: list[int], dtype: str) -> dict[str, dict[str, Any]]:
    """Each library's figures in one cell, and whether it computes what albert_tf does."""
    others = [name for name, library in LIBRARIES.items() if library.is_other]
    rows = compare(peers, lambda _: tokens, others)
    values = {peer.name: np.array([reply["value"] for reply in peer.replies]) for peer in peers}
    for name, of_peer in values.items():
        is_near = np.abs(of_peer - values[OURS]) < _TOLERANCE[dtype] * values[OURS]
        rows[name]["agrees"] = None if name in _OTHER_WEIGHTS else bool(is_near.all())
    return rows


def latency_table(run: dict[str, Any]) -> str:
    """A run as a Markdown table: tokens/s, and in brackets the time as a multiple of albert_tf's.

    The last column is how many times as fast as the fastest peer the fastest of our routes is.
    """
    names = list(run["starts"])
    rows = [
        (title, *(f"{run['starts'][name][key]:.1f}" for name in names), "")
        for title, key in (("start to first batch, s", "start_seconds"), ("load, s", "load_seconds"))
    ]
    for cell, of_cell in run["cells"].items():
        shown = [
            f"{row['per_second']:.0f} ({row['albert_tf_times_by_seconds']:.2f})"
            + ("" if row["agrees"] is not False else " differs")
            if (row := of_cell.get(name))
            else "died"
            for name in names
        ]
        times = [
            row["of_best_peer_by_seconds"]
            for name, row in of_cell.items()
            if not LIBRARIES[name].is_other and "of_best_peer_by_seconds" in row
        ]
        fastest = f"{max(times):.2f}" if times else ""
        rows.append((f"{cell}, {run['filled'][cell]:.0%} tokens", *shown, fastest))
    return f"{run['dtype']}\n\n{markdown_table(('', *names, 'times best peer'), rows)}\n"


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, InferenceSettings, __doc__))
