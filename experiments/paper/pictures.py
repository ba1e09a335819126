"""Pictures of experiments: curves of models over steps, hours or layers, and scores with those of the paper."""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from data_prep.errors import needs_extra
from data_prep.files import written_aside
from experiments.paper.results import Results, mean_and_spread

with needs_extra("Drawing", "matplotlib", "plot"):
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

Points = Sequence[Mapping[str, float]]  # a seed's values along the curve


def draw_curves(
    path: Path, curves: Mapping[str, Sequence[Points]], x: str, panels: Mapping[str, str]
) -> None:
    """Draws the mean over seeds, with their range as a pale band; a panel for each measure.

    Args:
      path: the PNG.
      curves: title -> the points of each seed; points may lack a measure.
      x: the name of the horizontal axis in the points.
      panels: measure in the points -> title of the panel.
    """
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    colors = matplotlib.color_sequences["tab10"]
    styles = list(zip(itertools.product(("-", "--"), colors), curves, strict=False))
    for axis, (measure, title) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        for (style, color), name in styles:
            seeds = curves[name]
            # Only points that all seeds have reached; their hours differ slightly.
            points = [each for each in zip(*seeds, strict=False) if all(measure in point for point in each)]
            across = [statistics.fmean(point[x] for point in each) for each in points]
            values = [[point[measure] for point in each] for each in points]
            means = [statistics.fmean(value) for value in values]
            axis.plot(across, means, style, color=color, lw=1.5, marker="o", ms=3, label=name)
            if len(seeds) > 1:
                low, high = [min(value) for value in values], [max(value) for value in values]
                axis.fill_between(across, low, high, color=color, alpha=0.15, lw=0)
        _dress(axis, title, x)
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(5, len(handles)), frameon=False)
    _save(figure, path)


def draw_scores(path: Path, results: Results, columns: Sequence[str]) -> None:
    """Draws a panel for each column: our values as dots with their spread, the paper's as rings."""
    rows = list(reversed(results.rows))
    figure = Figure(figsize=(3.4 * len(columns) + 1.6, 0.45 * len(rows) + 1.6), layout="constrained")
    axes = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    found = {}
    for axis, name in zip(axes, columns, strict=True):
        for place, row in enumerate(rows):
            if row.ours.get(name):
                mean, spread = mean_and_spread(row.ours[name])
                style = {"fmt": "o", "color": "C0", "ms": 6, "capsize": 3}
                found["ours"] = axis.errorbar(mean, place, xerr=spread or 0, **style)
            if name in row.paper:
                (ring,) = axis.plot(row.paper[name], place, "o", mfc="none", color="gray", ms=8)
                found["the paper"] = ring
        column = results.column(name)
        _dress(axis, column.title, column.unit)
        axis.set_yticks(range(len(rows)), [row.title for row in rows])
        axis.margins(x=0.1)
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=2, frameon=False)
    _save(figure, path)


def _dress(axis, title: str, unit: str) -> None:
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_xlabel(unit, fontsize=9)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def _save(figure: Figure, path: Path) -> None:
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=120)
