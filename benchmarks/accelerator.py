"""Training steps and inference of ALBERT on a GPU or TPU, beside Hugging Face's in PyTorch.

    pip install 'jax[cuda12]' keras torch transformers numpy h5py ml_dtypes msgspec cyclopts rich
    python -m benchmarks.accelerator --output=benchmarks/results/accelerator.json
    python -m benchmarks.accelerator --largest --kinds=training

This library runs as Keras on JAX and needs no TensorFlow; unless XLA_FLAGS is set, cuBLAS multiplies. Each library
runs in its own process, which is stopped (SIGSTOP) except during its turns of a few steps each. A training step is
forward, backward, clipping and AdamW for both heads; inference is the encoder. With `--largest`, each process has
the device to itself.
"""

import dataclasses
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from albert_cli import program
from albert_tf.config import AlbertConfig, Remat
from albert_tf.flops import gpu_peak, inference_flops, training_flops
from albert_tf.lab.peer_processes import Peer
from benchmarks.accelerator_peers import PEERS, Cell
from benchmarks.peer_settings import OURS, PeerSettings
from data_prep.errors import InputError, check_among, check_at_least

_TINY = {"vocab_size": 100, "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 2}
_TINY |= {"num_attention_heads": 2, "intermediate_size": 32}
MODELS = {
    **{
        name: AlbertConfig.from_preset(f"albert_{name}_v2") for name in ("base", "large", "xlarge", "xxlarge")
    },
    "tiny": AlbertConfig(**_TINY),  # to try the program
}
# Tokens in a batch, so that a training step of several libraries fits into 80 GB.
TOKENS = {"base": 32_768, "large": 16_384, "xlarge": 4_096, "xxlarge": 4_096, "tiny": 256}


@dataclass(frozen=True)
class AcceleratorSettings(PeerSettings):
    """What is measured.

    Attributes:
      models: base, large, xlarge, xxlarge, and tiny to try the program.
      kinds: training, inference or both.
      lengths: T of the rows, which have no padding.
      batch_size: rows in a batch. Default: 32,768 tokens for base, 16,384 for large, 4,096 for the others.
      remat: what our backward pass recomputes: =activations or =layers.
      turns: number of turns of each library.
      steps: number of steps in a turn, which are started without waiting for each other.
      peak_tflops: the device's peak in the dtype. Default: that of known GPUs, in bfloat16.
      largest: find each library's largest batch instead, up to 65,536 rows or --batch_size.
    """

    peers: tuple[str, ...] = (OURS, "hugging_face_compiled")
    dtypes: tuple[Literal["bfloat16", "float32"], ...] = ("bfloat16",)
    logs: Path = Path("accelerator_logs")
    models: tuple[str, ...] = ("base", "large", "xlarge", "xxlarge")
    kinds: tuple[Literal["training", "inference"], ...] = ("training", "inference")
    lengths: tuple[int, ...] = (128, 512)
    batch_size: int | None = None
    remat: Remat = False
    turns: int = 5
    steps: int = 10
    peak_tflops: float | None = None
    largest: bool = False

    def __post_init__(self):
        self.check_peers(PEERS, ours_required=False)
        check_at_least(1, self, "turns", "steps")
        check_among(MODELS, "models", self.models)
        for T in self.lengths:
            if not 8 <= T <= 512:
                raise InputError(f"--lengths must be from 8 to 512, the models' positions. Received {T}.")

    def cells(self) -> list[tuple[str, Cell]]:
        """Each line of the report: the model's name and what is computed."""
        return [
            (model, Cell(MODELS[model].to_dict(), kind, dtype, T, P=round(0.15 * T)))
            for dtype in self.dtypes
            for kind in self.kinds
            for model in self.models
            for T in self.lengths
        ]


def spawn(name: str, cell: Cell, B: int, settings: AcceleratorSettings) -> Peer:
    """Starts a library's process, whose first step compiles, or finds the largest batch."""
    if name == OURS:
        cell = dataclasses.replace(cell, remat=settings.remat)
    command = [settings.interpreter(name), "-m", "benchmarks.accelerator_peers", name]
    command += [json.dumps(dataclasses.asdict(cell)), str(B), *(["--largest"] if settings.largest else [])]
    return Peer.spawn(name, command, settings.logs)


def measure(cell: Cell, B: int, settings: AcceleratorSettings) -> dict[str, dict]:
    """Measures all libraries in turns."""
    peers = [spawn(name, cell, B, settings) for name in settings.peers]  # all import at the same time
    peers = [peer for peer in peers if peer.take_first_step("1")]
    for peer in peers:
        peer.step(str(settings.steps))  # not measured: the second step may still compile
        peer.steps.clear()
    for _ in range(settings.turns):
        peers = [peer for peer in peers if peer.step(str(settings.steps))]
    for peer in peers:
        peer.stop()
    rows = {peer.name: row(peer, cell, B, settings) for peer in peers}
    compare_with_best(rows)
    return rows


def flops(cell: Cell) -> int:
    """FLOPs of the matrix products of one row."""
    config = AlbertConfig.from_dict(cell.config)
    return (
        training_flops(config, cell.T, cell.P) if cell.kind == "training" else inference_flops(config, cell.T)
    )


def row(peer: Peer, cell: Cell, B: int, settings: AcceleratorSettings) -> dict:
    """A library's figures: medians over turns."""
    seconds = [turn["seconds"] / turn["steps"] for turn in peer.steps]
    step, last = statistics.median(seconds), peer.steps[-1]
    peak = settings.peak_tflops * 1e12 if settings.peak_tflops else gpu_peak(last["device"])
    return {
        "step_milliseconds": 1e3 * step,
        "tokens_per_second": B * cell.T / step,
        "share_of_peak": flops(cell) * B / step / peak if peak else None,
        "peak_megabytes": max(turn["peak_megabytes"] for turn in peer.steps),
        "first_step_seconds": peer.first_step_seconds,
        "seconds": seconds,
        "device": last["device"],
        "versions": last["versions"],
    }


def compare_with_best(rows: dict[str, dict]) -> None:
    """Adds to each row how many times faster it is than the fastest other library, as a median over turns."""
    others = [row for name, row in rows.items() if name != OURS]
    if not others:
        return
    best = min(others, key=lambda row: row["step_milliseconds"])
    for row in rows.values():
        ratios = [theirs / mine for theirs, mine in zip(best["seconds"], row["seconds"], strict=True)]
        row["times_best_peer"] = statistics.median(ratios)


def find_largest(cell: Cell, most: int, settings: AcceleratorSettings) -> dict[str, dict]:
    """The largest batch of each library, one after the other."""
    rows = {}
    for name in settings.peers:
        peer = spawn(name, cell, most, settings)
        if peer.take_first_step():
            peer.stop()
            rows[name] = peer.steps[0]
    return rows


def table(title: str, rows: dict[str, dict]) -> str:
    """A cell's figures in Markdown."""
    if any("largest" in row for row in rows.values()):
        lines = [f"| {name} | {row['largest']} |" for name, row in rows.items()]
        return "\n".join([title, "", "| | largest batch |", "|---|---|", *lines, ""])
    lines = []
    for name, row in rows.items():
        share = f"{row['share_of_peak']:.1%}" if row["share_of_peak"] else "-"
        lines.append(
            f"| {name} | {row['step_milliseconds']:.2f} | {row['tokens_per_second']:,.0f} | {share} "
            f"| {row.get('times_best_peer', 1.0):.2f} | {row['peak_megabytes']:,.0f} "
            f"| {row['first_step_seconds']:.0f} s |"
        )
    head = "| | ms | tokens/s | of peak | times best peer | MB | first step |"
    return "\n".join([title, "", head, "|---|---|---|---|---|---|---|", *lines, ""])


def main(settings: AcceleratorSettings) -> None:
    """Measures every cell and prints its table."""
    report = {**settings.new_report(), "runs": []}
    for model, cell in settings.cells():
        B = settings.batch_size or (65_536 if settings.largest else max(1, TOKENS[model] // cell.T))
        rows = find_largest(cell, B, settings) if settings.largest else measure(cell, B, settings)
        shape = {"T": cell.T} if settings.largest else {"B": B, "T": cell.T}
        report["runs"].append(
            {"model": model, "kind": cell.kind, "dtype": cell.dtype, **shape, "peers": rows}
        )
        sizes = ", ".join(f"{name}={size}" for name, size in shape.items())
        print(table(f"{model}, {cell.kind}, {cell.dtype}, {sizes}", rows), flush=True)
        settings.write(report)


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, AcceleratorSettings, __doc__))
