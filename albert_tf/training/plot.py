"""Learning curves of runs as a picture."""

import itertools
from collections import Counter
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogFormatter

from albert_tf.training.run_files import METRICS_FILE, read_metrics
from data_prep.errors import InputError
from data_prep.files import written_aside

# Name in metrics.jsonl -> title, what the vertical axis is in.
PANELS = {
    "masked_lm_loss": ("masked-LM loss", "nats a prediction"),
    "sentence_order_loss": ("sentence-order loss", "nats a pair"),
    "gradient_norm": ("gradient norm before clipping", "norm"),
    "masked_lm_accuracy": ("masked-LM accuracy", "share of predictions"),
    "sentence_order_accuracy": ("sentence-order accuracy", "share of pairs"),
    "learning_rate": ("learning rate", "rate"),
}
# The panels of a fine-tuning run; the names of its metrics, which its task decides, follow them.
FINETUNING_PANELS = {
    "loss": ("loss", "mean of the batches"),
    "learning_rate": ("learning rate", "rate"),
}
MOST_PANELS = 6
SMOOTH_ABOVE = 60  # points of a line, from which on it is drawn smoothed over a pale one as it is


def plot_runs(runs: list[Path], path: Path) -> None:
    """Draws losses, accuracies, gradient norm and learning rate against steps to a PNG.

    Training is a line, smoothed where it has many points, evaluation dots; one color a run. Of fine-tuning runs
    it is the loss, the learning rate and the metrics of their task; a folder with several seeds is as many runs.

    Raises:
      InputError: no run, a folder without metrics, runs of both kinds, or a picture that cannot be written there.
    """
    runs = [one for run in runs for one in _seeds(run)]
    lines = _read(runs)
    panels = _panels(lines)
    figure = Figure(figsize=(14, 7.4), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True)
    colors = itertools.cycle(matplotlib.color_sequences["tab10"])
    names = _labels(runs)
    handles = []
    for name, of_run, color in zip(names, lines, colors, strict=False):
        handles.append(Line2D([], [], color=color, lw=2, label=name))
        for axis, metric in zip(axes.flat, panels, strict=False):
            _draw(axis, of_run, metric, color)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, (title, unit) in zip(axes.flat, panels.values(), strict=False):
        dress(axis, title, unit)
    for axis in axes[1]:
        axis.set_xlabel("step", fontsize=9)
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    handles += [
        Line2D([], [], color="gray", lw=1.5, label="training"),
        Line2D([], [], color="gray", ls="none", marker="o", ms=5, mec="white", label="held out"),
    ]
    if panels is PANELS:
        axes[0, 2].set_yscale("log")
        axes[0, 2].yaxis.set_major_formatter(LogFormatter())  # 0.6 rather than a power
        axes[0, 2].yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.5)))
        axes[0, 2].tick_params(which="both", labelsize=9)
        handles.append(axes[1, 1].axhline(0.5, color="gray", ls=":", label="chance"))
    if any("rolled_back_to" in line for of_run in lines for line in of_run):
        handles.append(Line2D([], [], color="gray", ls="none", marker="v", ms=6, label="rolled back"))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False)
    try:
        with written_aside(path) as aside:
            figure.savefig(aside, format="png", dpi=120)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise InputError(
            f"--output must name a PNG in a folder that is there. Received {path}: {error.strerror}."
        ) from None


def dress(axis, title: str, unit: str) -> None:
    """Gives a panel its title, what its vertical axis is in, and the look of all our pictures."""
    axis.set_title(title, fontsize=11, loc="left")
    axis.set_ylabel(unit, fontsize=9)
    axis.tick_params(labelsize=9)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.02)


def _read(runs: list[Path]) -> list[list[dict]]:
    if not runs:
        raise InputError("Name at least one run's folder, what --output_dir was. Received none.")
    lines = []
    for run in runs:
        lines.append([_without_absent_pairs(line) for line in read_metrics(run)])
        if not lines[-1]:
            raise InputError(
                f"A run's folder holds {METRICS_FILE} with a line or more. Received {run}, which does not; "
                "name the --output_dir of a run."
            )
    return lines


def _without_absent_pairs(line: dict) -> dict:
    """No loss and no accuracy of pairs where there were none, for which both are 0; no pair's loss is."""
    absent = [prefix for prefix in ("", "eval_") if line.get(f"{prefix}sentence_order_loss") == 0]
    names = {f"{prefix}sentence_order_{what}" for prefix in absent for what in ("loss", "accuracy")}
    return {name: value for name, value in line.items() if name not in names}


def _seeds(run: Path) -> list[Path]:
    """A run's folder, or those of its seeds where it is one of fine-tuning."""
    seeds = sorted(Path(run).glob("seed_*"), key=lambda path: (len(path.name), path.name))
    return [seed for seed in seeds if (seed / METRICS_FILE).exists()] or [run]


def _panels(lines: list[list[dict]]) -> dict[str, tuple[str, str]]:
    """What to draw: pretraining's panels, or the metrics that the runs of fine-tuning have."""
    pretraining = [any("masked_lm_loss" in line for line in of_run) for of_run in lines]
    if all(pretraining):
        return PANELS
    if any(pretraining):
        raise InputError(
            "Runs to compare are of one kind. Received runs of pretraining and runs of fine-tuning; draw two "
            "pictures."
        )
    names = {name: None for of_run in lines for line in of_run for name in line}
    metrics = [name.removeprefix("eval_") for name in names if name.startswith("eval_")]
    found = {
        name: (name.replace("_", " "), "dev set") for name in metrics if name not in ("loss", "examples")
    }
    return dict(list({**FINETUNING_PANELS, **found}.items())[:MOST_PANELS])


def _labels(runs: list[Path]) -> list[str]:
    """The folders' names, with the run's for a seed; the path as given where two have the same."""
    paths = [Path(run).resolve() for run in runs]
    names = ["/".join(path.parts[-2:]) if path.name.startswith("seed_") else path.name for path in paths]
    count = Counter(names)
    return [str(run) if count[name] > 1 else name for run, name in zip(runs, names, strict=True)]


def _draw(axis, lines: list[dict], metric: str, color) -> None:
    train = [(line["step"], line[metric]) for line in lines if metric in line]
    held_out = [(line["step"], line[f"eval_{metric}"]) for line in lines if f"eval_{metric}" in line]
    if train:
        steps, values = zip(*train, strict=True)
        smooth = values if metric == "learning_rate" else _smoothed(values)
        if smooth != values:
            axis.plot(steps, values, color=color, alpha=0.2, lw=0.8)
        axis.plot(steps, smooth, color=color, lw=1.5)
        for back in (line["step"] for line in lines if "rolled_back_to" in line):
            axis.plot(back, smooth[max(0, sum(step <= back for step in steps) - 1)], "v", color=color, ms=6)
    if held_out:
        axis.plot(*zip(*held_out, strict=True), "o", color=color, ms=5, mec="white", zorder=3)


def _smoothed(values: tuple[float, ...]) -> tuple[float, ...]:
    """Means over a window of about a fortieth of the points around each; few points stay as they are."""
    if len(values) < SMOOTH_ABOVE:
        return values
    half = len(values) // 80 + 1
    windows = (values[max(0, i - half) : i + half + 1] for i in range(len(values)))
    return tuple(sum(window) / len(window) for window in windows)
