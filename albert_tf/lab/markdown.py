"""results.md: an experiment's table with the paper's numbers beside ours."""

from albert_tf.lab.numbers import as_printed, difference, heading, number, summary
from albert_tf.lab.results import Comparison, Results

MARKDOWN_FILE = "results.md"


def markdown(results: Results) -> str:
    """The whole page."""
    parts = [
        f"# {results.title} ({results.paper})",
        results.question,
        f"    {results.command}" if results.command else "",
        _caption(results),
        table(results),
        *(f"![{plot.caption}]({plot.file})" for plot in results.plots),
        "\n".join(f"- {sentence(results, comparison)}" for comparison in results.comparisons),
        "\n".join(f"- {note}" for note in results.notes),
        _environment(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(results: Results) -> str:
    """Rows with a column of the paper's and one of ours, where there are such numbers."""
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


def sentence(results: Results, comparison: Comparison) -> str:
    """What a comparison says: "SOP against NSP, SOP: higher (+9.0 ± 0.8); the paper: higher"."""
    column = results.column(comparison.column)
    titles = (
        f"{results.row(comparison.row).title} against {results.row(comparison.than).title}, {column.title}"
    )
    paper = f"; the paper: {comparison.paper}" if comparison.paper else ""
    size = difference(comparison.difference, column)
    if comparison.spread is None:
        return f"{titles}: can't tell from one seed ({size}){paper}"
    return f"{titles}: {comparison.verdict} ({size} ± {number(comparison.spread, column)}){paper}"


def _caption(results: Results) -> str:
    if not results.seeds:
        return ""
    scale = f"Scale {results.scale}; ours" if results.scale else "Ours"
    if results.statistic == "median":
        return f"{scale}: median (minimum to maximum) of a row's runs."
    seeds = len(results.seeds)
    spread = "one seed" if seeds == 1 else f"mean ± standard deviation of {seeds} seeds"
    return f"{scale}: {spread}. A difference is given with its standard error."


def _environment(results: Results) -> str:
    return ", ".join(f"{name} {value}" for name, value in results.environment.items())
