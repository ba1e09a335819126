"""The counts of `albert inspect --stats` as a picture."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from data_prep.files import written_aside
from data_prep.inspection.example_stats import ExampleStats

_FOUND, _RULE = "tab:blue", "tab:orange"


def plot_stats(stats: ExampleStats, path: Path) -> None:
    """Draws lengths, masked shares, runs, replacements and labels beside ALBERT's rules, to a PNG."""
    figure = Figure(figsize=(14, 7), layout="constrained")
    figure.suptitle(f"{stats.examples:,} examples, {stats.tokens:,} tokens")
    lengths, shares, runs, replaced, labels, empty = figure.subplots(2, 3).ravel()
    empty.axis("off")
    empty.legend(
        handles=[Patch(color=_FOUND, label="found"), Patch(color=_RULE, label="rule")], loc="center left"
    )
    note = "Runs: n-grams that touch are one run,\nso the rule (1/n) fits where there is room between them."
    empty.text(0.02, 0.25, note)

    bins = min(50, stats.max_seq_length)
    tokens = np.arange(len(stats.lengths))
    lengths.hist(tokens, bins=bins, range=(0, stats.max_seq_length + 1), weights=stats.lengths, color=_FOUND)
    lengths.set(title="tokens in an example", xlabel="tokens", ylabel="examples")

    used = max(20, int(np.flatnonzero(stats.masked_shares).max(initial=0)) + 2)
    shares.bar(np.arange(used), stats.masked_shares[:used], width=1, color=_FOUND)
    shares.axvline(15, color=_RULE)
    shares.set(title="masked share of an example", xlabel="% of its tokens", ylabel="examples")

    rules = [6 / 11, 3 / 11, 2 / 11, 0]
    _bars(runs, ["1", "2", "3", "4+"], stats.runs[1:], rules, "words in a run of masked words")
    _bars(replaced, ["[MASK]", "kept", "random"], stats.replaced, [0.8, 0.1, 0.1], "masked tokens become")
    _bars(labels, ["in order", "swapped"], stats.labels, [0.5, 0.5], "sentence order")
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=110)


def _bars(axis: Axes, names: list[str], counts: np.ndarray, rules: list[float], title: str) -> None:
    places = np.arange(len(names))
    found = counts / max(1, counts.sum())
    bars = axis.bar(places - 0.2, found, width=0.4, color=_FOUND)
    axis.bar(places + 0.2, rules, width=0.4, color=_RULE)
    axis.bar_label(bars, [f"{share:.1%}" for share in found], fontsize="small")
    axis.set(title=title, xticks=places, xticklabels=names, ylabel="share")
    axis.margins(y=0.1)
