"""One page of all experiments of a laboratory: tables, plots and how they were made, in a file by itself.

DIR/*/results.json --read_all--> Results --section--> what the template shows --> DIR/report.html
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

from albert_tf.lab.numbers import as_printed, difference, heading, number, summary
from albert_tf.lab.results import RESULTS_FILE, Comparison, Results
from data_prep.errors import InputError
from data_prep.files import write_text

REPORT_FILE = "report.html"
_FOLDED_FROM = 16  # rows; of a longer table the first ten are shown and the others folded
_SHOWN = 10
# What a comparison's label says, by how it should stand out.
AGREES, DIFFERS, OPEN, ALONE = "agrees", "differs", "open", "alone"


@dataclass(frozen=True)
class Cell:
    """A place of the table; "" where there is no number."""

    ours: str
    paper: str
    seeds: str


@dataclass(frozen=True)
class Claim:
    """A comparison in words.

    Attributes:
      text: what was compared.
      size: by how much it differs.
      label: what can be said.
      kind: AGREES or DIFFERS from the paper, OPEN if the spread covers the difference, ALONE where the paper
        says nothing.
    """

    text: str
    size: str
    label: str
    kind: str


@dataclass(frozen=True)
class Section:
    """An experiment as the page shows it."""

    name: str
    results: Results
    headings: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    shown: int
    claims: Sequence[Claim]
    verdicts: str
    pictures: Sequence[tuple[str, str]]
    facts: Sequence[tuple[str, str]]


def write_report(folder: Path) -> Path:
    """Writes FOLDER/report.html, whole or not at all.

    The page loads nothing: style and pictures are in it, and there is no script.

    Raises:
      InputError: there is no experiment in the folder, or the files of one are damaged or missing.
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
        made=_made([each.results for each in sections]),
        today=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )
    path = folder / REPORT_FILE
    try:
        write_text(path, page)
    except OSError as error:
        raise InputError(
            f"The page is written into the laboratory. Received {folder}: {error.strerror}."
        ) from None
    return path


def read_all(folder: Path) -> list[tuple[Path, Results]]:
    """All results of a laboratory, tables before figures, each by number.

    Raises:
      InputError: there are none, or one is damaged.
    """
    paths = sorted(folder.glob(f"*/{RESULTS_FILE}"))
    if not paths:
        raise InputError(
            f"A laboratory's folder holds experiments, for instance table4/{RESULTS_FILE}. Received {folder}, "
            "which holds none; run one with `albert lab`."
        )
    read = [(path, Results.read(path)) for path in paths]
    return sorted(
        read, key=lambda each: (not each[1].paper.startswith("Table"), _natural(each[1].paper), each[0])
    )


def section(results: Results, folder: Path) -> Section:
    """What the page shows of an experiment.

    Args:
      results: read from `folder`.
      folder: where its pictures are.

    Raises:
      InputError: a picture is missing or none, or results and comparisons do not fit each other.
    """
    columns = [
        column
        for column in results.columns
        if any(column.name in row.paper or row.ours.get(column.name) for row in results.rows)
    ]
    rows = []
    for row in results.rows:
        cells = []
        for column in columns:
            ours, paper = row.ours.get(column.name) or (), row.paper.get(column.name)
            cells.append(
                Cell(
                    summary(ours, column, results) if ours else "",
                    "" if paper is None else as_printed(paper, column),
                    ", ".join(number(value, column) for value in ours) if len(ours) > 1 else "",
                )
            )
        rows.append((row.title, cells))
    try:
        claims = [_claim(results, comparison) for comparison in results.comparisons]
    except StopIteration:
        raise InputError(
            f"{folder / RESULTS_FILE} compares a row or column that its table does not have; run it again."
        ) from None
    return Section(
        folder.name,
        results,
        [heading(column) for column in columns],
        rows,
        len(rows) if len(rows) < _FOLDED_FROM else _SHOWN,
        claims,
        _verdicts(claims),
        [(_data_uri(folder, plot.file), plot.caption) for plot in results.plots],
        _facts(results),
    )


def _claim(results: Results, comparison: Comparison) -> Claim:
    column = results.column(comparison.column)
    row, than = results.row(comparison.row), results.row(comparison.than)
    spread = "" if comparison.spread is None else f" ± {number(comparison.spread, column)}"
    return Claim(
        f"{row.title} against {than.title} in {heading(column)}:",
        f"{difference(comparison.difference, column)}{spread}",
        *_label(comparison),
    )


def _label(comparison: Comparison) -> tuple[str, str]:
    """What can be said, and its kind."""
    if comparison.verdict == "can't tell":
        paper = f" (the paper: {comparison.paper})" if comparison.paper else ""
        return f"can't tell{paper}", OPEN
    if comparison.paper is None or comparison.paper == "can't tell":
        return comparison.verdict, ALONE
    if comparison.paper == comparison.verdict:
        return f"{comparison.verdict}, as in the paper", AGREES
    return f"{comparison.verdict}; the paper: {comparison.paper}", DIFFERS


def _verdicts(claims: Sequence[Claim]) -> str:
    """How many comparisons came out how: "2 as in the paper, 1 can't tell"."""
    words = {
        AGREES: "as in the paper",
        DIFFERS: "other than in the paper",
        OPEN: "can't tell",
        ALONE: "of our own",
    }
    count = Counter(each.kind for each in claims)
    return ", ".join(f"{count[kind]} {text}" for kind, text in words.items() if count[kind])


def _facts(results: Results) -> list[tuple[str, str]]:
    """How the numbers were made, but for settings and environment, which are shown as they are."""
    seeds = ", ".join(map(str, results.seeds))
    several = {len(values) for row in results.rows for values in row.ours.values()} - {1}
    of_several = {
        "mean": "mean ± standard deviation over the seeds",
        "median": "median (minimum to maximum) over the runs",
    }[results.statistic]
    facts = (("scale", results.scale), ("seeds", seeds), ("numbers", of_several if several else ""))
    return [(name, value) for name, value in facts if value]


def _made(results: Sequence[Results]) -> list[tuple[str, str]]:
    """Machines and versions of all experiments: each different value once."""
    found: dict[str, dict[str, None]] = {}
    for each in results:
        for name, value in each.environment.items():
            found.setdefault(name, {})[str(value)] = None
    return [(name, "; ".join(values)) for name, values in found.items()]


def _data_uri(folder: Path, file: str) -> str:
    """A picture as part of the page."""
    kind = mimetypes.guess_type(file)[0] or ""
    if Path(file).name != file or not kind.startswith("image/"):
        raise InputError(f"A plot is a picture beside {folder / RESULTS_FILE}. Received {file!r}.")
    try:
        content = (folder / file).read_bytes()
    except OSError as error:
        raise InputError(
            f"{folder / file} must be there, as {RESULTS_FILE} names it. Received: {error.strerror}; run the "
            "experiment again."
        ) from None
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _natural(text: str) -> list[Any]:
    """Sorts "Table 10" behind "Table 2"."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]
