"""Results as text: how numbers are printed everywhere, the Markdown table, and the page results.md."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from albert_tf.lab.laboratory import make_folder
from albert_tf.lab.results import Column, Results, RowComparison, mean_and_spread
from data_prep.files import write_text

MARKDOWN_FILE = "results.md"


def write_results(folder: Path, results: Results) -> None:
    """Creates the folder if needed and writes results.md and results.json into it."""
    make_folder(folder)
    write_text(folder / MARKDOWN_FILE, markdown_page(results))
    results.write(folder)


def markdown_page(results: Results) -> str:
    """The content of results.md."""
    parts = [
        f"# {results.title} ({results.paper})",
        results.question,
        f"    {results.command}" if results.command else "",
        _caption(results),
        results_table(results),
        *(f"![{plot.caption}]({plot.file})" for plot in results.plots),
        "\n".join(f"- {comparison_sentence(results, comparison)}" for comparison in results.comparisons),
        "\n".join(f"- {note}" for note in results.notes),
        ", ".join(f"{name} {value}" for name, value in results.environment.items()),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def results_table(results: Results) -> str:
    """The table, with columns for the paper's values and for ours where there are any."""
    headings, cells = [""], [[row.title] for row in results.rows]
    for column in results.columns:
        if any(column.name in row.paper for row in results.rows):
            headings.append(f"{heading(column)}, paper")
            for row, line in zip(results.rows, cells, strict=True):
                line.append(as_printed(row.paper[column.name], column) if column.name in row.paper else "")
        if any(row.ours.get(column.name) for row in results.rows):
            headings.append(f"{heading(column)}, ours")
            for row, line in zip(results.rows, cells, strict=True):
                ours = row.ours.get(column.name)
                line.append(summary(ours, column, results) if ours else "")
    rule = ["---", *("---:" for _ in headings[1:])]
    lines = ([cell.replace("|", "\\|") for cell in line] for line in (headings, rule, *cells))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def comparison_sentence(results: Results, comparison: RowComparison) -> str:
    """A comparison as text, such as "SOP against NSP, SOP: higher (+9.0 ± 0.8); the paper: higher"."""
    column = results.column(comparison.column)
    titles = (
        f"{results.row(comparison.row).title} against {results.row(comparison.than).title}, {column.title}"
    )
    paper = f"; the paper: {comparison.paper}" if comparison.paper else ""
    size = difference(comparison.difference, column)
    if comparison.spread is None:
        return f"{titles}: can't tell from one seed ({size}){paper}"
    return f"{titles}: {comparison.verdict} ({size} ± {number(comparison.spread, column)}){paper}"


def spread_over(results: Results) -> str:
    """What our standard deviations are over."""
    if not _has_rounds(results):
        return "over the seeds"
    return "over the seeds; of speeds, over the rounds" if results.seeds else "over the rounds"


def _has_rounds(results: Results) -> bool:
    """Whether there are speeds, whose values are those of rounds, not of seeds."""
    return any(len(row.ours.get(name, ())) > 1 for row in results.rows for name in ("speed", "worker_speed"))


def _caption(results: Results) -> str:
    rounds = "Speeds: mean ± standard deviation over the rounds." if _has_rounds(results) else ""
    if not results.seeds:
        return rounds
    scale = f"Scale {results.scale}; ours" if results.scale else "Ours"
    if results.statistic == "median":
        return f"{scale}: median (minimum to maximum) of a row's runs."
    seeds = len(results.seeds)
    spread = "one seed" if seeds == 1 else f"mean ± standard deviation of {seeds} seeds"
    return f"{scale}: {spread}. Differences are given with their standard errors. {rounds}".rstrip()


def heading(column: Column) -> str:
    """A column's title with its unit."""
    return f"{column.title} ({column.unit})" if column.unit else column.title


def number(value: float, column: Column) -> str:
    """A value with the column's decimals.

    >>> number(11683584.0, Column("parameters", "parameters", decimals=0))
    '11,683,584'
    """
    return f"{value:,.{column.decimals}f}"


def as_printed(value: float, column: Column) -> str:
    """One of the paper's values: whole numbers, such as millions of parameters, stay whole.

    >>> as_printed(12, Column("millions", "parameters", "millions", decimals=1))
    '12'
    """
    return f"{value:,}" if isinstance(value, int) else number(value, column)


def difference(value: float, column: Column) -> str:
    """A difference with its sign.

    >>> difference(0.05, Column("sop", "SOP"))
    '+0.050'
    """
    return f"{value:+,.{column.decimals}f}"


def summary(values: Sequence[float], column: Column, results: Results) -> str:
    """Several seeds' values as mean ± standard deviation or as median (minimum to maximum); one value as it is.

    >>> summary([0.6, 0.7], Column("sop", "SOP"), results)
    '0.650 ± 0.071'
    """
    if results.statistic == "median" and len(values) > 1:
        low, high = number(min(values), column), number(max(values), column)
        return f"{number(statistics.median(values), column)} ({low} to {high})"
    mean, spread = mean_and_spread(values)
    return number(mean, column) if spread is None else f"{number(mean, column)} ± {number(spread, column)}"
