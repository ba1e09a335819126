"""Learning curves of runs as a picture."""

import itertools
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from albert_tf.files import written_aside
from albert_tf.training.run_log import read_metrics

PANELS = {
    "loss": "loss (MLM + SOP, nats)",
    "masked_lm_accuracy": "masked-LM accuracy",
    "sentence_order_accuracy": "sentence-order accuracy",
}


def plot_runs(runs: list[Path], path: Path) -> None:
    """Draws loss and accuracies against steps, training as lines and evaluation as dots, to a PNG."""
    figure = Figure(figsize=(13, 4), layout="constrained")
    axes = figure.subplots(1, len(PANELS))
    colors = itertools.cycle(matplotlib.color_sequences["tab10"])
    for run, color in zip(runs, colors, strict=False):
        lines = read_metrics(run)
        for axis, name in zip(axes, PANELS, strict=True):
            train = [(line["step"], line[name]) for line in lines if name in line]
            held_out = [(line["step"], line[f"eval_{name}"]) for line in lines if f"eval_{name}" in line]
            label = Path(run).resolve().name
            if train:
                axis.plot(*zip(*train, strict=True), color=color, alpha=0.6, label=f"{label}: training")
            if held_out:
                axis.plot(*zip(*held_out, strict=True), "o-", color=color, ms=5, label=f"{label}: held out")
    for axis, title in zip(axes, PANELS.values(), strict=True):
        axis.set(title=title, xlabel="step")
        axis.grid(alpha=0.3)
    axes[2].axhline(0.5, color="gray", ls=":", label="chance")
    axes[2].legend(fontsize="small")
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=120)
