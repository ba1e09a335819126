"""A self-contained HTML page of all experiments of a laboratory: tables, plots and how they were made.

DIR/*/results.json --read_all--> Results --section--> Section --template--> DIR/report.html
"""

import base64
import datetime
import mimetypes
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from albert_tf.lab.results import LAB_RESULTS_FILE, Column, ResultRow, Results, RowComparison
from albert_tf.lab.tables import as_printed, difference, heading, number, spread_over, summary
from data_prep.errors import InputError
from data_prep.files import write_text

REPORT_FILE = "report.html"
# A table with at least _FOLDED_FROM rows shows the first _SHOWN and folds the others.
_FOLDED_FROM, _SHOWN = 16, 10
# Kinds of findings, which the page shows in different colors.
AGREES, DIFFERS, OPEN, ALONE = "agrees", "differs", "open", "alone"


@dataclass(frozen=True)
class TableCell:
    """A cell of the table; "" stands for no number."""

    ours: str
    paper: str
    values: str


@dataclass(frozen=True)
class Finding:
    """A comparison in words.

    Attributes:
      text: the rows and the column.
      size: the difference with its standard error.
      label: the verdict.
      kind: AGREES with the paper or DIFFERS from it, OPEN if the difference may be chance, ALONE if the paper has
        no verdict.
    """

    text: str
    size: str
    label: str
    kind: str


@dataclass(frozen=True)
class Section:
    """An experiment on the page; `shown` is the number of rows that are not folded."""

    name: str
    results: Results
    headings: Sequence[str]
    rows: Sequence[tuple[str, Sequence[TableCell]]]
    shown: int
    findings: Sequence[Finding]
    verdicts: str
    pictures: Sequence[tuple[str, str]]
    facts: Sequence[tuple[str, str]]


def write_report(folder: Path) -> Path:
    """Writes FOLDER/report.html, complete or not at all, and returns its path.

    The page contains its style and pictures, has no script, and loads nothing.

    Raises:
      InputError: the folder holds no experiment, or files of one are damaged or missing.
    """
    sections = [section(results, path.parent) for path, results in read_all(folder)]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("albert_tf.lab", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html").render(
        folder=folder.resolve().name,
        sections=sections,
        environments=_environments([each.results for each in sections]),
        today=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )
    path = folder / REPORT_FILE
    try:
        write_text(path, page)
    except OSError as error:
        raise InputError(
            f"The laboratory must be a writable folder. Received {folder}: {error.strerror}."
        ) from None
    return path


def read_all(folder: Path) -> list[tuple[Path, Results]]:
    """All results of a laboratory: tables before figures, ordered by number.

    Raises:
      InputError: there are none, or one is damaged.
    """
    paths = sorted(folder.glob(f"*/{LAB_RESULTS_FILE}"))
    if not paths:
        raise InputError(
            f"A laboratory must hold an experiment, for instance table4/{LAB_RESULTS_FILE}. Received {folder}, "
            "which holds none; run one with `albert lab`."
        )
    read = [(path, Results.read(path)) for path in paths]
    return sorted(
        read, key=lambda each: (not each[1].paper.startswith("Table"), _natural(each[1].paper), each[0])
    )


def section(results: Results, folder: Path) -> Section:
    """An experiment as the page shows it.

    Args:
      results: read from `folder`.
      folder: contains its pictures.

    Raises:
      InputError: a picture is missing or is not a picture, or a comparison names an unknown row or column.
    """
    columns = [
        column
        for column in results.columns
        if any(column.name in row.paper or row.ours.get(column.name) for row in results.rows)
    ]
    try:
        findings = [_finding(results, comparison) for comparison in results.comparisons]
    except KeyError:
        raise InputError(
            f"{folder / LAB_RESULTS_FILE} compares a row or column that its table does not have; rerun the "
            "experiment."
        ) from None
    return Section(
        name=folder.name,
        results=results,
        headings=[heading(column) for column in columns],
        rows=[(row.title, [_cell(row, column, results) for column in columns]) for row in results.rows],
        shown=len(results.rows) if len(results.rows) < _FOLDED_FROM else _SHOWN,
        findings=findings,
        verdicts=_verdicts(findings),
        pictures=[(_data_uri(folder, plot.file), plot.caption) for plot in results.plots],
        facts=_facts(results),
    )


def _cell(row: ResultRow, column: Column, results: Results) -> TableCell:
    ours, paper = row.ours.get(column.name) or (), row.paper.get(column.name)
    return TableCell(
        ours=summary(ours, column, results) if ours else "",
        paper="" if paper is None else as_printed(paper, column),
        values=", ".join(number(value, column) for value in ours) if len(ours) > 1 else "",
    )


def _finding(results: Results, comparison: RowComparison) -> Finding:
    column = results.column(comparison.column)
    row, than = results.row(comparison.row), results.row(comparison.than)
    spread = "" if comparison.spread is None else f" ± {number(comparison.spread, column)}"
    return Finding(
        f"{row.title} against {than.title} in {heading(column)}:",
        f"{difference(comparison.difference, column)}{spread}",
        *_label(comparison),
    )


def _label(comparison: RowComparison) -> tuple[str, str]:
    """The verdict in words, and its kind."""
    if comparison.verdict == "can't tell":
        paper = f" (the paper: {comparison.paper})" if comparison.paper else ""
        return f"can't tell{paper}", OPEN
    if comparison.paper is None or comparison.paper == "can't tell":
        return comparison.verdict, ALONE
    if comparison.paper == comparison.verdict:
        return f"{comparison.verdict}, as in the paper", AGREES
    return f"{comparison.verdict}; the paper: {comparison.paper}", DIFFERS


def _verdicts(findings: Sequence[Finding]) -> str:
    """The number of findings of each kind: "2 as in the paper, 1 can't tell"."""
    words = {
        AGREES: "as in the paper",
        DIFFERS: "unlike the paper",
        OPEN: "can't tell",
        ALONE: "not in the paper",
    }
    count = Counter(each.kind for each in findings)
    return ", ".join(f"{count[kind]} {text}" for kind, text in words.items() if count[kind])


def _facts(results: Results) -> list[tuple[str, str]]:
    """How the numbers were made, apart from settings and environment."""
    seeds = ", ".join(map(str, results.seeds))
    several = {len(values) for row in results.rows for values in row.ours.values()} - {1}
    statistic = {
        "mean": f"mean ± standard deviation {spread_over(results)}",
        "median": "median (minimum to maximum) over the runs",
    }[results.statistic]
    facts = (("scale", results.scale), ("seeds", seeds), ("numbers", statistic if several else ""))
    return [(name, value) for name, value in facts if value]


def _environments(results: Sequence[Results]) -> list[tuple[str, str]]:
    """Machines and versions of all experiments: each distinct value once."""
    found: dict[str, dict[str, None]] = {}
    for each in results:
        for name, value in each.environment.items():
            found.setdefault(name, {})[str(value)] = None
    return [(name, "; ".join(values)) for name, values in found.items()]


def _data_uri(folder: Path, file: str) -> str:
    """A picture as a data: URI."""
    kind = mimetypes.guess_type(file)[0] or ""
    if Path(file).name != file or not kind.startswith("image/"):
        raise InputError(f"A plot must be a picture beside {folder / LAB_RESULTS_FILE}. Received {file!r}.")
    try:
        content = (folder / file).read_bytes()
    except OSError as error:
        raise InputError(
            f"{folder / file} must exist, because {LAB_RESULTS_FILE} names it. Received: {error.strerror}; rerun "
            "the experiment."
        ) from None
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _natural(text: str) -> list[Any]:
    """A sort key that puts "Table 10" after "Table 2"."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]
