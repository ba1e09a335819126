"""What the runs of all seeds came to: results.json and a table."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from data_prep.files import write_text

RESULTS_FILE = "results.json"


def write_results(
    output_dir: Path, task: str, metric: str, seeds: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Writes OUTPUT_DIR/results.json and returns its content.

    Args:
      output_dir: of the run.
      task: its name.
      metric: the name of the metric that the best weights were chosen by.
      seeds: for each "seed", "step" (of the best weights), and metrics by role: "dev", "test".

    Returns:
      "task", "metric", "best_seed", "seeds", and for each role of all seeds the median, minimum and maximum of
      each metric.
    """
    content: dict[str, Any] = {"task": task, "metric": metric, "best_seed": best_seed(seeds, metric)}
    content["seeds"] = list(seeds)
    for role in ("dev", "test"):
        if all(role in seed for seed in seeds):
            content[role] = _spread([seed[role] for seed in seeds])
    write_text(output_dir / RESULTS_FILE, json.dumps(content, indent=2) + "\n")
    return content


def best_seed(seeds: Sequence[Mapping[str, Any]], metric: str) -> int:
    """The seed with the best dev metric; the first one without evaluation."""
    evaluated = [seed for seed in seeds if metric in seed.get("dev", {})]
    return max(evaluated, key=lambda seed: seed["dev"][metric])["seed"] if evaluated else seeds[0]["seed"]


def results_table(results: Mapping[str, Any]) -> Table | None:
    """Median, minimum and maximum of each metric over the seeds; None where nothing was evaluated."""
    several = len(results["seeds"]) > 1
    columns = ("median", "minimum", "maximum") if several else ("value",)
    title = f"{results['task']}, {len(results['seeds'])} seeds" if several else results["task"]
    table = Table("split", "metric", *columns, title=title)
    for role in ("dev", "test"):
        for name, spread in results.get(role, {}).items():
            if name == "examples":
                continue
            values = [spread["median"], spread["min"], spread["max"]] if several else [spread["median"]]
            table.add_row(role, name, *(f"{value:.4f}" for value in values))
    return table if table.row_count else None


def _spread(metrics: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    spread = {}
    for name in metrics[0]:
        values = [of_seed[name] for of_seed in metrics if name in of_seed]
        spread[name] = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return spread
