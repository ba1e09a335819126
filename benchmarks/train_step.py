"""Measures training steps of ALBERT-base in this and other libraries: tokens/s, memory, share of the peak.

For example:

    pip install '.[peers]'
    python -m benchmarks.train_step --output=benchmarks/results/train_step.json

Each library runs in its own process, which is stopped (SIGSTOP) except during its turns of one step each.
"""

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from albert_cli import program
from albert_tf.config import AlbertConfig
from albert_tf.flops import training_flops
from albert_tf.lab.peer_processes import Peer
from benchmarks.peer_settings import PeerSettings, find_peer, parse_shapes
from benchmarks.train_step_peers import PEERS
from data_prep.errors import check_at_least

DEFAULT = ("albert_tf", "albert_tf_remat", "keras_hub", "hugging_face", "hugging_face_compiled")


@dataclass(frozen=True)
class TrainStepSettings(PeerSettings):
    """What is measured.

    Attributes:
      shapes: B,T,P of each batch.
      steps: number of steps that each library takes, in turns.
      dropout: dropout rate of hidden vectors and attention probabilities; 0 is ALBERT v2's.
      original_repo: checkout of google-research/albert; measures the original, too.
    """

    peers: tuple[str, ...] = DEFAULT
    logs: Path = Path("train_step_logs")
    shapes: tuple[str, ...] = ("8,128,20", "2,512,77")
    steps: int = 7
    dropout: float = 0.0
    original_repo: Path | None = None

    def __post_init__(self):
        self.check_peers(PEERS, ours_required=False)
        check_at_least(1, self, "steps")
        parse_shapes(self.shapes, "BTP", "8,128,20")


def start(name: str, dtype: str, shape: tuple[int, ...], settings: TrainStepSettings) -> Peer | None:
    """Starts a library's process, which takes its first step."""
    command = [settings.interpreter(name), "-m", "benchmarks.train_step_peers", name]
    command += ["--dtype", dtype, "--shape", *map(str, shape), f"--dropout={settings.dropout}"]
    if name == "original":
        command.append(f"--original_repo={settings.original_repo}")
    return Peer.start(name, command, settings.logs)


def measure(dtype: str, shape: tuple[int, ...], settings: TrainStepSettings) -> dict:
    """Measures all libraries in turns at one dtype and one shape."""
    names = [*settings.peers, *(["original"] if settings.original_repo else []), "matrix_product"]
    peers = [peer for name in names if (peer := start(name, dtype, shape, settings))]
    for peer in peers:
        peer.step()  # not measured: the second step may still allocate
        peer.steps.clear()
    for _ in range(settings.steps):
        peers = [peer for peer in peers if peer.step()]
    for peer in peers:
        peer.stop()
    return {
        "dtype": dtype,
        "shape": dict(zip("BTP", shape, strict=True)),
        "peers": compare_with_best(peers, shape),
    }


def compare_with_best(peers: list[Peer], shape: Sequence[int]) -> dict[str, dict]:
    """Medians by the clock, and by user CPU time, which other work on the machine affects less."""
    product = find_peer(peers, "matrix_product")
    libraries = [peer for peer in peers if peer is not product]
    peak, cpu_peak = (product.median("loss") / product.median(name) for name in ("seconds", "user_seconds"))
    B, T, P = shape
    tokens, flops = B * T, B * training_flops(AlbertConfig(), T, P, whole_last_layer=True)
    others = [peer for peer in libraries if not peer.name.startswith("albert_tf")]
    rows = {"matrix_product": {"gflops": peak / 1e9, "gflops_per_core": cpu_peak / 1e9}}
    for peer in libraries:
        seconds, user = peer.median("seconds"), peer.median("user_seconds")
        # Ratios are medians over turns, within which the libraries run seconds apart.
        rows[peer.name] = {
            "tokens_per_second": tokens / seconds,
            "tokens_per_user_second": tokens / user,
            "share_of_peak": flops / seconds / peak,
            "share_of_core_peak": flops / user / cpu_peak,
            "peak_megabytes": max(step["peak_megabytes"] for step in peer.steps),
            "first_step_seconds": peer.first_step_seconds,
            "last_loss": peer.steps[-1]["loss"],
            "seconds": [round(step["seconds"], 4) for step in peer.steps],
            "user_seconds": [round(step["user_seconds"], 4) for step in peer.steps],
        }
        for name in ("seconds", "user_seconds") if others else ():
            best = min(others, key=lambda other: other.median(name))
            ratios = [theirs[name] / mine[name] for theirs, mine in zip(best.steps, peer.steps, strict=True)]
            rows[peer.name][f"times_best_peer_by_{name}"] = statistics.median(ratios)
    return rows


def step_table(run: dict) -> str:
    """A run as a Markdown table."""
    product = run["peers"]["matrix_product"]
    shape = ", ".join(f"{name}={size}" for name, size in run["shape"].items())
    lines = [
        f"{run['dtype']}, {shape}; matrix products {product['gflops']:.0f} GFLOP/s, "
        f"{product['gflops_per_core']:.0f} a core",
        "",
        "| | tokens/s | tokens/core s | times best peer | by core s | of peak | of core peak | MB | first step |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in run["peers"].items():
        if name != "matrix_product":
            ratios = [row.get(f"times_best_peer_by_{kind}", 1.0) for kind in ("seconds", "user_seconds")]
            lines.append(
                f"| {name} | {row['tokens_per_second']:.0f} | {row['tokens_per_user_second']:.0f} "
                f"| {ratios[0]:.2f} | {ratios[1]:.2f} | {row['share_of_peak']:.0%} "
                f"| {row['share_of_core_peak']:.0%} | {row['peak_megabytes']:.0f} "
                f"| {row['first_step_seconds']:.0f} s |"
            )
    return "\n".join(lines) + "\n"


def main(settings: TrainStepSettings) -> None:
    """Measures all libraries and prints a table for each shape and dtype."""
    report = {**settings.new_report(), "runs": []}
    for shape in parse_shapes(settings.shapes, "BTP", "8,128,20"):
        for dtype in settings.dtypes:
            report["runs"].append(measure(dtype, shape, settings))
            print(step_table(report["runs"][-1]), flush=True)
            settings.write(report)


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, TrainStepSettings, __doc__))
