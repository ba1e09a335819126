"""Training steps of ALBERT-base here and in other libraries, in turns: tokens/s, memory, share of the peak.

    pip install -e '.[peers]'
    python -m benchmarks.train_step --output=benchmarks/results/train_step.json

Every library runs in a process of its own that is stopped (SIGSTOP) except for its turn, one step at a time.
`--python NAME=PATH` gives a library a Python of its own; `--original_repo` adds google-research/albert.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

from albert_tf.lab.environment import describe_processor
from albert_tf.lab.peer_processes import Peer
from benchmarks.train_step_peers import PEERS, E, F, H, L, V

DEFAULT = ("albert_tf", "albert_tf_remat", "keras_hub", "hugging_face", "hugging_face_compiled")
SHAPES = ("8,128,20", "2,512,77")


def model_flops(B: int, T: int, P: int) -> float:
    """Of one step of the model as published, forward and twice that backward; products only."""
    layer = 2 * T * (4 * H * H + 2 * H * F) + 4 * T * T * H
    heads = 2 * P * (H * E + E * V) + 2 * H * (H + 2)
    return 3 * B * (L * layer + 2 * T * E * H + heads)


def start(name: str, dtype: str, shape: str, flags: argparse.Namespace) -> Peer | None:
    """A library's process, after its first step."""
    pythons = dict(value.split("=", 1) for value in flags.python)
    command = [pythons.get(name, sys.executable), "-m", "benchmarks.train_step_peers", name]
    command += ["--dtype", dtype, "--shape", *shape.split(","), f"--dropout={flags.dropout}"]
    if name == "original":
        command.append(f"--original_repo={flags.original_repo}")
    return Peer.start(name, command, flags.logs)


def measure(dtype: str, shape: str, flags: argparse.Namespace) -> dict:
    """All libraries in turns at one dtype and one shape."""
    names = [*flags.peers, *(["original"] if flags.original_repo else []), "matrix_product"]
    peers = [peer for name in names if (peer := start(name, dtype, shape, flags))]
    for peer in peers:
        peer.step()  # the second may still allocate
        peer.steps.clear()
    for _ in range(flags.steps):
        peers = [peer for peer in peers if peer.step()]
    for peer in peers:
        peer.stop()
    return {
        "dtype": dtype,
        "shape": dict(zip("BTP", map(int, shape.split(",")), strict=True)),
        "peers": summary(peers, [int(number) for number in shape.split(",")]),
    }


def summary(peers: list[Peer], shape: list[int]) -> dict[str, dict]:
    """Medians; by the clock and by user CPU time, which other work on the machine disturbs less."""
    product = next(peer for peer in peers if peer.name == "matrix_product")
    libraries = [peer for peer in peers if peer is not product]
    peak, cpu_peak = (product.median("loss") / product.median(name) for name in ("seconds", "user_seconds"))
    tokens, flops = shape[0] * shape[1], model_flops(*shape)
    others = [peer for peer in libraries if not peer.name.startswith("albert_tf")]
    rows = {"matrix_product": {"gflops": peak / 1e9, "gflops_per_core": cpu_peak / 1e9}}
    for peer in libraries:
        seconds, user = peer.median("seconds"), peer.median("user_seconds")
        # Ratios are medians over turns, in which the libraries ran seconds apart.
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


def table(run: dict) -> str:
    """The run as a Markdown table."""
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=DEFAULT)
    parser.add_argument("--dtypes", nargs="+", default=("bfloat16", "float32"))
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="B,T,P")
    parser.add_argument("--steps", type=int, default=7, help="of every library, in turns")
    parser.add_argument("--dropout", type=float, default=0.0, help="both rates; the default is ALBERT v2's")
    parser.add_argument("--python", nargs="*", default=[], metavar="NAME=PATH")
    parser.add_argument("--original_repo", type=Path)
    parser.add_argument("--logs", type=Path, default=Path("train_step_logs"))
    parser.add_argument("--output", type=Path)
    flags = parser.parse_args()
    flags.logs.mkdir(parents=True, exist_ok=True)
    report: dict = {**describe_processor(), "cores": os.cpu_count(), "runs": []}
    for shape in flags.shapes:
        for dtype in flags.dtypes:
            report["runs"].append(measure(dtype, shape, flags))
            print(table(report["runs"][-1]), flush=True)
            if flags.output:
                flags.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
