"""Learning curves of runs as a picture."""

import itertools
from collections import Counter
from pathlib import Path

from albert_tf.checkpoints.run_files import METRICS_FILE, read_metrics
from data_prep.errors import InputError, needs_extra
from data_prep.files import written_aside

with needs_extra("Drawing", "matplotlib", "plot"):
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogFormatter, MaxNLocator

# Name in metrics.jsonl -> title, unit of the vertical axis.
PANELS = {
    "masked_lm_loss": ("masked-LM loss", "nats per prediction"),
    "sentence_order_loss": ("sentence-order loss", "nats per pair"),
    "gradient_norm": ("gradient norm before clipping", "norm"),
    "masked_lm_accuracy": ("masked-LM accuracy", "share of predictions"),
    "sentence_order_accuracy": ("sentence-order accuracy", "share of pairs"),
    "learning_rate": ("learning rate", "rate"),
}
# The first panels of a fine-tuning run; the metrics of its task follow them.
FINETUNING_PANELS = {
    "loss": ("loss", "mean over examples"),
    "learning_rate": ("learning rate", "rate"),
}
MOST_PANELS = 6
FORMATS = (".png", ".pdf", ".svg")
SMOOTH_ABOVE = 60  # points in a line; a longer one is drawn smoothed, over a pale copy of itself


def plot_runs(runs: list[Path], path: Path) -> None:
    """Draws losses, accuracies, gradient norm and learning rate against steps.

    Training is drawn as a line, smoothed if it has many points, evaluation as dots; each run has its own
    color. A vertical line marks where a phase with sequences of another length begins. For fine-tuning runs the
    panels are the loss, the learning rate and the metrics of the task, and every seed is a run.

    Args:
      runs: their folders.
      path: the file to write; its suffix, one of `FORMATS`, is its format.

    Raises:
      InputError: `path` has another suffix, no run is named, a folder has no metrics, the runs are of both kinds,
        or the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(
            f"--output must end in .png, .pdf or .svg. Received {path}; give it one of these suffixes."
        )
    figure = draw_runs(runs)
    try:
        with written_aside(path) as aside:
            figure.savefig(aside, format=suffix.removeprefix("."), dpi=120)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise InputError(
            f"--output must name a file in an existing folder. Received {path}: {error.strerror}."
        ) from None


def draw_runs(runs: list[Path]) -> Figure:
    """The picture of `plot_runs`."""
    runs = [one for run in runs for one in _seeds(run)]
    lines = _read(runs)
    panels = _panels(lines)
    columns = 2 if len(panels) == 4 else 3
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.7 * columns, 0.8 + 3.3 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False)
    colors = itertools.cycle(matplotlib.color_sequences["tab10"])
    names = _labels(runs)
    handles = []
    for name, run_lines, color in zip(names, lines, colors, strict=False):
        handles.append(Line2D([], [], color=color, lw=2, label=name))
        for axis, metric in zip(axes.flat, panels, strict=False):
            _draw(axis, run_lines, metric, color)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, (title, unit) in zip(axes.flat, panels.values(), strict=False):
        dress(axis, title, unit)
    for axis in axes.flat[max(0, len(panels) - columns) : len(panels)]:  # the lowest panel of each column
        axis.set_xlabel("step", fontsize=9)
        axis.tick_params(labelbottom=True)
        axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axis.xaxis.set_major_formatter("{x:,.0f}")
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
    if any("rolled_back_to" in line for run_lines in lines for line in run_lines):
        handles.append(Line2D([], [], color="gray", ls="none", marker="v", ms=6, label="rolled back"))
    if any(_length_changes(run_lines) for run_lines in lines):
        handles.append(Line2D([], [], color="gray", ls="--", lw=0.8, label="another length"))
    legend = figure.legend(
        handles=handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False
    )
    for text in legend.get_texts():
        text.set_parse_math(False)  # a folder's name may contain dollar signs
    return figure


def dress(axis, title: str, unit: str) -> None:
    """Sets a panel's title and unit, and the style of all our pictures."""
    axis.set_title(title, fontsize=11, loc="left")
    axis.set_ylabel(unit, fontsize=9)
    axis.tick_params(labelsize=9)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.02)


def _read(runs: list[Path]) -> list[list[dict]]:
    if not runs:
        raise InputError("Name at least one run's folder (its --output_dir). Received none.")
    lines = []
    for run in runs:
        if not run.exists():
            raise InputError(f"There is no folder {run}. Name the --output_dir of a run.")
        lines.append([_without_absent_pairs(line) for line in read_metrics(run)])
        if not lines[-1]:
            raise InputError(
                f"A run's folder must hold {METRICS_FILE} with at least one line. Received {run}, which does not; "
                "name the --output_dir of a run."
            )
    return lines


def _without_absent_pairs(line: dict) -> dict:
    """Removes loss and accuracy of sentence pairs if no example is a pair: the loss of a pair is never 0."""
    absent = [prefix for prefix in ("", "eval_") if line.get(f"{prefix}sentence_order_loss") == 0]
    names = {f"{prefix}sentence_order_{what}" for prefix in absent for what in ("loss", "accuracy")}
    return {name: value for name, value in line.items() if name not in names}


def _seeds(run: Path) -> list[Path]:
    """The run's folder, or for a fine-tuning run the folders of its seeds."""
    seeds = sorted(Path(run).glob("seed_*"), key=lambda path: (len(path.name), path.name))
    return [seed for seed in seeds if (seed / METRICS_FILE).exists()] or [run]


def _panels(lines: list[list[dict]]) -> dict[str, tuple[str, str]]:
    """The panels of pretraining; for fine-tuning runs, one for each of their metrics."""
    marks = {"masked_lm_loss", "eval_masked_lm_loss"}  # an evaluation alone has only the second
    pretraining = [any(marks & line.keys() for line in run_lines) for run_lines in lines]
    if all(pretraining):
        return PANELS
    if any(pretraining):
        raise InputError(
            "Runs in one picture must be of one kind. Received pretraining runs and fine-tuning runs; draw two "
            "pictures."
        )
    names = {name: None for run_lines in lines for line in run_lines for name in line}
    metrics = [name.removeprefix("eval_") for name in names if name.startswith("eval_")]
    found = {
        name: (name.replace("_", " "), "dev set") for name in metrics if name not in ("loss", "examples")
    }
    return dict(list({**FINETUNING_PANELS, **found}.items())[:MOST_PANELS])


def _labels(runs: list[Path]) -> list[str]:
    """The names of the folders, a seed's together with its run's; the paths as written if two names are equal."""
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
    for step, length in _length_changes(lines):
        axis.axvline(step, color=color, ls="--", lw=0.8)
        top = {"xycoords": ("data", "axes fraction"), "xytext": (3, -9), "textcoords": "offset points"}
        axis.annotate(f"T={length}", (step, 1), fontsize=8, color=color, **top)


def _length_changes(lines: list[dict]) -> list[tuple[int, int]]:
    """Where a phase with sequences of another length begins: the step and the length."""
    phased = [line for line in lines if "max_seq_length" in line]
    return [
        (before["step"], after["max_seq_length"])
        for before, after in itertools.pairwise(phased)
        if before["max_seq_length"] != after["max_seq_length"]
    ]


def _smoothed(values: tuple[float, ...]) -> tuple[float, ...]:
    """The means of a window around each point, about a fortieth of the line; few points are not smoothed."""
    if len(values) < SMOOTH_ABOVE:
        return values
    half = len(values) // 80 + 1
    windows = (values[max(0, i - half) : i + half + 1] for i in range(len(values)))
    return tuple(sum(window) / len(window) for window in windows)
