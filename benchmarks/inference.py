"""Latency of ALBERT-base encoders, ours and others', in turns: at equal padding, and on lengths of real texts.

    pip install -e '.[peers,onnx,litert]' openvino
    python -m benchmarks.inference --output=benchmarks/results/inference.json
    python -m benchmarks.inference --shapes --spm_model_file=30k-clean.model \\
        --tasks sst-2=SST-2 squad1.1=dev-v1.1.json

Batches of a task are its development set, shuffled, padded to the longest of each. `albert_tf` is our SavedModel
called from Python; onnx_runtime, openvino and litert run our exports. Every library runs in a process of its own
that is stopped (SIGSTOP) except for its turn, one batch at a time.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from albert_tf.lab.environment import describe_processor
from albert_tf.lab.peer_processes import Peer
from benchmarks.inference_peers import PEERS, SAME_WEIGHTS
from benchmarks.task_data import make_features
from data_prep.tasks.examples import Problems
from data_prep.tasks.reading import read_examples
from data_prep.tasks.task import find_task
from data_prep.tokenizers.vocabulary import load_tokenizer

SHAPES = ("1,16", "1,128", "1,512", "8,16", "8,128", "8,512", "32,16", "32,128", "32,512")
_ALIKE = {"float32": 1e-3, "bfloat16": 0.05}  # relative, of the mean absolute value


@dataclass(frozen=True)
class Cell:
    """One column of the table: batches of rows of so many tokens.

    Attributes:
      name: for the table.
      batches: lengths of the rows of each; one batch is repeated, several are taken in order.
    """

    name: str
    batches: tuple[tuple[int, ...], ...]

    def request(self, turn: int) -> str:
        lengths = self.batches[turn % len(self.batches)]
        return json.dumps({"lengths": lengths, "T": max(lengths)})

    @property
    def filled(self) -> float:
        """The share of tokens, the rest being padding."""
        return sum(map(sum, self.batches)) / sum(len(rows) * max(rows) for rows in self.batches)

    def tokens(self, turns: int) -> list[int]:
        """Without padding, of each turn."""
        return [sum(self.batches[turn % len(self.batches)]) for turn in range(turns)]


def cells(flags: argparse.Namespace) -> list[Cell]:
    """Those of the flags: full rows, and rows of real lengths."""
    shapes = [tuple(map(int, shape.split(","))) for shape in flags.shapes]
    full = [Cell(f"{B} x {T}", ((T,) * B,)) for B, T in shapes]
    return full + [task_cell(task, flags) for task in flags.tasks]


def task_cell(task_and_data: str, flags: argparse.Namespace) -> Cell:
    """Shuffled batches of a task's development set; SQuAD's are windows of 384 tokens."""
    name, data = task_and_data.split("=", 1)
    task = find_task(name)
    tokenizer = load_tokenizer(flags.spm_model_file, None, True)
    examples = read_examples(task, data, "dev", Problems())
    B, order = flags.task_batch, np.random.default_rng(0).permutation(len(examples))
    chosen = [examples[row] for row in order[: B * flags.turns]]
    lengths = [len(arrays["input_ids"]) for arrays in make_features(task, chosen, tokenizer, 512)]
    rows = [tuple(lengths[i : i + B]) for i in range(0, len(lengths) - B + 1, B)]
    return Cell(f"{name}, {B} rows", tuple(rows))


def export_all(folder: Path) -> dict[str, int]:
    """Exports of an ALBERT-base of random weights in every format that a library reads; bytes of each."""
    from albert_tf.config import AlbertConfig
    from albert_tf.pretrained.conversion import convert
    from albert_tf.pretrained.names import parameters
    from albert_tf.pretrained.stored import StoredModel
    from albert_tf.pretrained.tf1 import write_tf1
    from export.run import export_for_runtime, export_model

    config, rng = AlbertConfig(), np.random.default_rng(0)
    # Biases and scales are random, too: converters leave out what adds zero or multiplies by one.
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
    made = [path for path in folder.iterdir() if path != source]
    return {
        path.name: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in made
    }


def measure(dtype: str, columns: list[Cell], files: Path, flags: argparse.Namespace) -> dict:
    """All libraries in turns over all cells."""
    first = columns[0].request(0)
    command = ["-m", "benchmarks.inference_peers"]
    pythons = dict(value.split("=", 1) for value in flags.python)
    started = [
        Peer.start(
            name,
            [pythons.get(name, sys.executable), *command, name, "--dtype", dtype, "--files", str(files)],
            flags.logs,
            first,
        )
        for name in flags.peers
    ]
    peers = [peer for peer in started if peer]
    starts = {
        peer.name: {"start_seconds": peer.first_step_seconds, "load_seconds": peer.steps[0]["load_seconds"]}
        for peer in peers
    }
    rows = {}
    for cell in columns:
        for turn in range(len(cell.batches)):  # shapes that a library has not seen may be compiled
            peers = [peer for peer in peers if peer.step(cell.request(turn))]
        for peer in peers:
            peer.steps.clear()
        for turn in range(flags.turns):
            peers = [peer for peer in peers if peer.step(cell.request(turn))]
        rows[cell.name] = summary(peers, cell.tokens(flags.turns), dtype)
    for peer in peers:
        peer.stop()
    filled = {cell.name: round(cell.filled, 3) for cell in columns}
    return {"dtype": dtype, "starts": starts, "filled": filled, "cells": rows}


def summary(peers: list[Peer], tokens: list[int], dtype: str) -> dict[str, dict]:
    """Of one cell: latency and tokens/s by the clock and by user CPU time, and ratios to albert_tf's.

    The ratio is the median over turns, in which the libraries ran seconds apart; above 1 albert_tf is faster.
    """
    ours = next(peer for peer in peers if peer.name == "albert_tf")
    rows = {}
    for peer in peers:
        seconds = [step["seconds"] for step in peer.steps]
        rows[peer.name] = {
            "median_milliseconds": 1000 * statistics.median(seconds),
            "tokens_per_second": sum(tokens) / sum(seconds),
            "tokens_per_user_second": sum(tokens)
            / max(1e-9, sum(step["user_seconds"] for step in peer.steps)),
            "peak_megabytes": max(step["peak_megabytes"] for step in peer.steps),
            "agrees": agrees(peer, ours, dtype),
        }
        for name in ("seconds", "user_seconds"):
            ratios = [
                theirs[name] / max(1e-9, mine[name])
                for theirs, mine in zip(peer.steps, ours.steps, strict=True)
            ]
            rows[peer.name][f"{name}_of_albert_tf"] = statistics.median(ratios)
    return rows


def agrees(peer: Peer, ours: Peer, dtype: str) -> bool | None:
    """Whether it computed what albert_tf did; None where it has other weights."""
    if peer.name not in SAME_WEIGHTS:
        return None
    pairs = [(theirs["value"], mine["value"]) for theirs, mine in zip(peer.steps, ours.steps, strict=True)]
    return all(abs(theirs - mine) < _ALIKE[dtype] * mine for theirs, mine in pairs)


def table(run: dict) -> str:
    """The run as a Markdown table: tokens/s, and in brackets how many times albert_tf's time it takes."""
    names = list(run["starts"])
    lines = [f"{run['dtype']}", "", "| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for title, key in (("start to first batch, s", "start_seconds"), ("load, s", "load_seconds")):
        lines.append(f"| {title} | " + " | ".join(f"{run['starts'][name][key]:.1f}" for name in names) + " |")
    for cell, rows in run["cells"].items():
        shown = [
            f"{row['tokens_per_second']:.0f} ({row['seconds_of_albert_tf']:.2f})"
            + ("" if row["agrees"] is not False else " differs")
            if (row := rows.get(name))
            else "died"
            for name in names
        ]
        lines.append(f"| {cell}, {run['filled'][cell]:.0%} tokens | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--dtypes", nargs="+", default=("bfloat16", "float32"))
    parser.add_argument("--shapes", nargs="*", default=SHAPES, metavar="B,T")
    parser.add_argument("--tasks", nargs="*", default=[], metavar="TASK=DATA")
    parser.add_argument("--task_batch", type=int, default=8, help="rows in a batch of a task")
    parser.add_argument("--spm_model_file", help="the vocabulary of tasks")
    parser.add_argument("--turns", type=int, default=10, help="of every library in every cell")
    parser.add_argument("--python", nargs="*", default=[], metavar="NAME=PATH")
    parser.add_argument("--logs", type=Path, default=Path("inference_logs"))
    parser.add_argument("--output", type=Path)
    flags = parser.parse_args()
    if "albert_tf" not in flags.peers:
        parser.error("--peers must name albert_tf, which the others are compared with")
    flags.logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sizes = export_all(Path(folder))
        report: dict = {**describe_processor(), "cores": os.cpu_count(), "bytes": sizes, "runs": []}
        print("\n".join(f"{name}: {size:,} bytes" for name, size in sizes.items()), flush=True)
        for dtype in flags.dtypes:
            report["runs"].append(measure(dtype, cells(flags), Path(folder), flags))
            print(table(report["runs"][-1]), flush=True)
            if flags.output:
                flags.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
