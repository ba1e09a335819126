"""results.md: an experiment's table with the paper's numbers beside ours."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from albert_tf.files import write_text
from albert_tf.lab.numbers import difference, heading, number, summary
from albert_tf.lab.results import Comparison, Results

MARKDOWN_FILE = "results.md"


def write_markdown(results: Results, folder: Path) -> Path:
    """Writes results.md into a folder that is there, whole or not at all; returns its path."""
    path = folder / MARKDOWN_FILE
    write_text(path, markdown(results))
    return path


def markdown(results: Results) -> str:
    """The page: question, table, comparisons, pictures, notes and how it was made."""
    facts = [("scale", results.scale), ("seeds", ", ".join(map(str, results.seeds)))]
    facts += [(name, str(value)) for name, value in results.environment.items()]
    parts = [
        f"# {results.paper}: {results.title}",
        results.question,
        _table(results),
        _bullets(_claim(results, comparison) for comparison in results.comparisons),
        _bullets(results.notes),
        *(f"![{plot.caption}]({plot.file})" for plot in results.plots),
        "    " + results.command if results.command else "",
        ", ".join(f"{name} {value}" for name, value in facts if value),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def claim(results: Results, comparison: Comparison) -> str:
    """A comparison in words, without its verdict.

    >>> claim(results, results.comparisons[0])
    'SOP against NSP in SOP accuracy: +0.050 ± 0.010'
    """
    column = results.column(comparison.column)
    spread = "" if comparison.spread is None else f" ± {number(comparison.spread, column)}"
    return (
        f"{results.row(comparison.row).title} against {results.row(comparison.than).title} in {heading(column)}: "
        f"{difference(comparison.difference, column)}{spread}"
    )


def _claim(results: Results, comparison: Comparison) -> str:
    paper = f"; the paper: {comparison.paper}" if comparison.paper else ""
    return f"{claim(results, comparison)}, **{comparison.verdict}**{paper}"


def _table(results: Results) -> str:
    """The paper's column stands before ours; a column without any number is left out."""
    columns: list[tuple[str, list[str]]] = []
    for column in results.columns:
        paper = [number(r.paper[column.name], column) if column.name in r.paper else "" for r in results.rows]
        ours = [
            summary(r.ours[column.name], column, results) if r.ours.get(column.name) else ""
            for r in results.rows
        ]
        columns.append((f"{heading(column)}, paper", paper))
        columns.append((heading(column), ours))
    columns = [(title, cells) for title, cells in columns if any(cells)]
    lines = [
        _line(["", *(title for title, _ in columns)]),
        "|---|" + "--:|" * len(columns),
        *(_line([row.title, *(cells[i] for _, cells in columns)]) for i, row in enumerate(results.rows)),
    ]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _bullets(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)
