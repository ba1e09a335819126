"""Figure 1 as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from albert_tf.lab.layer_changes import MEASURES
from data_prep.files import written_aside

_PANELS = (("l2", "L2 distance", "distance"), ("degrees", "Cosine similarity as an angle", "degrees"))


def plot_layers(measured: Mapping[str, Sequence[np.ndarray]], sharing: Mapping[str, str], path: Path) -> None:
    """Draws a line for each model over its layers: L2 distance and angle, one panel each, to a PNG.

    Args:
      measured: name -> one (L, 3) a seed, as `layer_changes` gives it.
      sharing: name -> in words; models that share nothing are dashed.
      path: of the PNG.
    """
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    colors = matplotlib.color_sequences["tab10"]
    panels = figure.subplots(1, len(_PANELS))
    for axis, (measure, title, unit) in zip(panels, _PANELS, strict=True):
        for i, (name, seeds) in enumerate(measured.items()):
            values = np.stack([seed[:, MEASURES.index(measure)] for seed in seeds])  # (seeds, L)
            layers, mean = np.arange(1, values.shape[1] + 1), values.mean(axis=0)
            style = {"color": colors[i % len(colors)], "ls": "--" if "nothing" in sharing[name] else "-"}
            axis.plot(layers, mean, lw=1.8, marker="o", ms=3.5, label=f"{name} ({sharing[name]})", **style)
            if len(values) > 1:
                spread = values.std(axis=0, ddof=1)
                axis.fill_between(layers, mean - spread, mean + spread, color=style["color"], alpha=0.2, lw=0)
        axis.set_title(title, fontsize=12, loc="left")
        axis.set_ylabel(unit)
        axis.set_xlabel("layer")
        axis.set_ylim(bottom=0)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3), frameon=False)
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=120)
