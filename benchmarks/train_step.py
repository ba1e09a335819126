"""Measures training steps of ALBERT-base in this and other libraries: tokens/s, memory, share of the peak.

For example:

    pip install '.[peers]'
    python -m benchmarks.train_step --output=benchmarks/results/train_step.json

Each library runs in its own process, which is stopped (SIGSTOP) except during its turns of one step each.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_cli import program
from albert_tf.config import AlbertConfig
from albert_tf.flops import training_flops
from benchmarks.peers import Library, PeerSettings, parse_shapes
from benchmarks.report import compare, markdown_table
from data_prep.errors import check_at_least

LIBRARIES = {
    "albert_tf": Library("ours:training"),
    "albert_tf_remat": Library("ours:training", {"remat": "layers"}),
    "albert_tf_remat_activations": Library("ours:training", {"remat": "activations"}),
    # The step that takes least memory.
    "albert_tf_micro_batches": Library("ours:training", {"remat": "activations", "accumulation_steps": 2}),
    "keras_hub": Library("keras_hub:training", is_other=True),
    "hugging_face": Library("hugging_face:training", is_other=True),
    "hugging_face_compiled": Library("hugging_face:training", {"compiled": True}, is_other=True),
}
_PEAK = "matrix_product"


@dataclass(frozen=True)
class TrainStepSettings(PeerSettings):
    """What is measured.

    Attributes:
      shapes: B,T,P of each batch.
      steps: number of steps that each library takes, in turns.
      original_repo: checkout of google-research/albert; measures the original, too.
    """

    peers: tuple[str, ...] = (
        "albert_tf",
        "albert_tf_remat",
        "keras_hub",
        "hugging_face",
        "hugging_face_compiled",
    )
    shapes: tuple[str, ...] = ("8,128,20", "2,512,77")
    steps: int = 7
    original_repo: Path | None = None

    def __post_init__(self):
        self.check_peers(LIBRARIES)
        check_at_least(1, self, "steps")
        parse_shapes(self.shapes, "BTP", "8,128,20")


def main(settings: TrainStepSettings) -> None:
    """Measures all libraries and prints a table for each shape and dtype."""
    report, config = settings.report(), AlbertConfig()
    for shape in parse_shapes(settings.shapes, "BTP", "8,128,20"):
        for dtype in settings.dtypes:
            report["runs"].append(measure(config, dtype, shape, settings))
            print(step_table(report["runs"][-1]), flush=True)
            settings.write(report)


def measure(
    config: AlbertConfig, dtype: str, shape: tuple[int, ...], settings: TrainStepSettings
) -> dict[str, Any]:
    """Measures all libraries in turns at one dtype and one shape."""
    libraries = {name: LIBRARIES[name] for name in settings.peers}
    if settings.original_repo:
        repo = {"repo": str(settings.original_repo)}
        libraries["original"] = Library("original:training", repo, is_other=True)
    libraries[_PEAK] = Library("ours:matrix_product")
    sizes = dict(zip("BTP", shape, strict=True))
    cell = {"config": config.to_dict(), "dtype": dtype, **sizes}
    # The second step may still allocate.
    peers = settings.measure(libraries, cell, warm_up=[{}, {}], turns=[{}] * settings.steps)
    B, T, P = shape
    flops = B * training_flops(config, T, P, whole_last_layer=True)
    others = [name for name, library in libraries.items() if library.is_other]
    rows = compare(peers, lambda peer: [reply.get("flops", flops) for reply in peer.replies], others)
    for peer in peers:
        row, losses = rows[peer.name], [reply.get("loss") for reply in peer.replies]
        row["tokens_per_second"] = row["per_second"] * B * T / flops
        row["tokens_per_user_second"] = row["per_user_second"] * B * T / flops
        row["last_loss"] = losses[-1]
    return {"dtype": dtype, "shape": sizes, "peak": rows.pop(_PEAK), "peers": rows}


def step_table(run: dict[str, Any]) -> str:
    """A run as a Markdown table; "of peak" compares with matrix products measured in the same turns."""
    peak = {clock: run["peak"][f"per_{clock}"] for clock in ("second", "user_second")}
    shape = ", ".join(f"{name}={size}" for name, size in run["shape"].items())
    title = (
        f"{run['dtype']}, {shape}; matrix products {peak['second'] / 1e9:.0f} GFLOP/s, "
        f"{peak['user_second'] / 1e9:.0f} a core"
    )
    header = (
        "",
        "tokens/s",
        "tokens/core s",
        "times best peer",
        "by core s",
        "of peak",
        "of core peak",
        "MB",
    )
    rows = [
        (
            name,
            f"{row['tokens_per_second']:.0f}",
            f"{row['tokens_per_user_second']:.0f}",
            *(f"{row.get(f'of_best_peer_by_{clock}', 1.0):.2f}" for clock in ("seconds", "user_seconds")),
            *(f"{row[f'per_{clock}'] / peak[clock]:.0%}" for clock in peak),
            f"{row['peak_megabytes']:.0f}",
            f"{row['first_turn_seconds']:.0f} s",
        )
        for name, row in run["peers"].items()
    ]
    return f"{title}\n\n{markdown_table((*header, 'first step'), rows)}\n"


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, TrainStepSettings, __doc__))
