"""results.md: an experiment's table with the paper's numbers beside ours."""

from collections.abc import Sequence

from albert_tf.lab.results import Column, Comparison, Results, Row, mean_and_spread

MARKDOWN_FILE = "results.md"


def markdown(results: Results) -> str:
    """The whole page."""
    parts = [
        f"# {results.title} ({results.paper})",
        results.question,
        f"    {results.command}",
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
        title = column.title + (f" ({column.unit})" if column.unit else "")
        if any(column.name in row.paper for row in results.rows):
            headings.append(f"{title}, paper")
            for row, line in zip(results.rows, cells, strict=True):
                line.append(_printed(row.paper.get(column.name), column))
        if any(column.name in row.ours for row in results.rows):
            headings.append(f"{title}, ours")
            for row, line in zip(results.rows, cells, strict=True):
                line.append(_ours(row, column))
    rule = ["---", *("---:" for _ in headings[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (headings, rule, *cells))


def sentence(results: Results, comparison: Comparison) -> str:
    """What a comparison says: "SOP against NSP, SOP: higher (+9.0 ± 0.8); the paper: higher"."""
    column = results.column(comparison.column)
    titles = (
        f"{results.row(comparison.row).title} against {results.row(comparison.than).title}, {column.title}"
    )
    paper = f"; the paper: {comparison.paper}" if comparison.paper else ""
    if comparison.spread is None:
        return f"{titles}: can't tell from one seed ({comparison.difference:+.{column.decimals}f}){paper}"
    size = f"{comparison.difference:+.{column.decimals}f} ± {comparison.spread:.{column.decimals}f}"
    return f"{titles}: {comparison.verdict} ({size}){paper}"


def _caption(results: Results) -> str:
    if not results.seeds:
        return ""
    number = len(results.seeds)
    spread = "one seed" if number == 1 else f"mean ± standard deviation of {number} seeds"
    return f"Scale {results.scale}; ours: {spread}. A difference is given with its standard error."


def _ours(row: Row, column: Column) -> str:
    values: Sequence[float] = row.ours.get(column.name, ())
    if not values:
        return ""
    mean, spread = mean_and_spread(values)
    return _number(mean, column) + (f" ± {_number(spread, column)}" if spread is not None else "")


def _number(value: float | None, column: Column) -> str:
    return "" if value is None else f"{value:,.{column.decimals}f}"


def _printed(value: float | None, column: Column) -> str:
    """As the paper has it: whole numbers, such as millions of parameters, stay whole."""
    return f"{value:,}" if isinstance(value, int) else _number(value, column)


def _environment(results: Results) -> str:
    return ", ".join(f"{name} {value}" for name, value in results.environment.items())
