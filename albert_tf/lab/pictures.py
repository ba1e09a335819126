"""Plots of an experiment: learning curves of its models, and scores with those of the paper."""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from albert_tf.lab.results import Results, mean_and_spread
from albert_tf.training.plot import dress
from data_prep.errors import needs_extra
from data_prep.files import written_aside

with needs_extra("Drawing", "matplotlib", "plot"):
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import EngFormatter

CURVES_FILE, SCORES_FILE = "curves.png", "scores.png"
_PANELS = {
    "eval_masked_lm_accuracy": "masked-LM accuracy, held out",
    "eval_sentence_order_accuracy": "sentence accuracy, held out",
}


@dataclass(frozen=True)
class Curve:
    """The evaluations of one model.

    Attributes:
      title: the label in the legend.
      seeds: for each seed, the evaluations in metrics.jsonl, with their "hours" of training if these are drawn;
        they lack the sentence accuracy if the model has no sentence objective.
    """

    title: str
    seeds: Sequence[Sequence[Mapping[str, float]]]


def draw_curves(path: Path, curves: Sequence[Curve], *, over_time: bool) -> None:
    """Draws the mean over seeds, with their range as a pale band, against steps or hours."""
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    colors = list(matplotlib.color_sequences["tab10"])
    lines = [
        Line2D([], [], color=color, ls=style, lw=1.5, label=curve.title)
        for curve, (style, color) in zip(curves, itertools.product(("-", "--"), colors), strict=False)
    ]
    for axis, (metric, title) in zip(figure.subplots(1, 2), _PANELS.items(), strict=True):
        for curve, line in zip(curves, lines, strict=True):
            _draw(axis, curve, metric, "hours" if over_time else "step", line)
        dress(axis, title, "share correct")
        axis.set_xlabel("hours of training" if over_time else "step", fontsize=9)
        if not over_time:
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    chance = axis.axhline(0.5, color="gray", ls=":", label="chance")
    handles = [*lines, chance]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(5, len(handles)), frameon=False)
    _save(figure, path)


def _draw(axis, curve: Curve, metric: str, x: str, line: Line2D) -> None:
    # Only evaluations that all seeds have reached; their hours differ slightly.
    points = [point for point in zip(*curve.seeds, strict=False) if all(metric in each for each in point)]
    across = [statistics.fmean(each[x] for each in point) for point in points]
    values = [[each[metric] for each in point] for point in points]
    means = [statistics.fmean(value) for value in values]
    color = line.get_color()
    axis.plot(across, means, line.get_linestyle(), color=color, lw=1.5, marker="o", ms=3)
    if len(curve.seeds) > 1 and points:
        low, high = [min(value) for value in values], [max(value) for value in values]
        axis.fill_between(across, low, high, color=color, alpha=0.15, lw=0)


def draw_scores(path: Path, results: Results, columns: Sequence[str]) -> None:
    """Draws a panel for each column: our values as dots with their spread, the paper's as rings."""
    rows = list(reversed(results.rows))
    figure = Figure(figsize=(3.4 * len(columns) + 1.6, 0.45 * len(rows) + 1.6), layout="constrained")
    axes = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, columns, strict=True):
        for place, row in enumerate(rows):
            if row.ours.get(name):
                mean, spread = mean_and_spread(row.ours[name])
                axis.errorbar(
                    mean, place, xerr=spread or 0, fmt="o", color="C0", ms=6, capsize=3, label="ours"
                )
            if name in row.paper:
                axis.plot(row.paper[name], place, "o", mfc="none", color="gray", ms=8, label="the paper")
        column = results.column(name)
        dress(axis, column.title, "")
        axis.set_xlabel(column.unit, fontsize=9)
        axis.set_yticks(range(len(rows)), [row.title for row in rows])
        axis.margins(x=0.1)
    found = {
        label: handle
        for axis in axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=2, frameon=False)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=120)
