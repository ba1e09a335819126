"""The results of an experiment, the paper's numbers beside ours: results.json, and results.md with its table.

A row of our values has one value per seed, or per round of a speed.
"""

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from benchmarks.report import markdown_table
from data_prep.errors import InputError, needs_extra
from data_prep.files import Number, as_record, read_json_object, write_text

RESULTS_FILE, MARKDOWN_FILE, REPORT_FILE = "results.json", "results.md", "report.md"
_SIGNIFICANCE = 0.05
Verdict = Literal["higher", "lower", "can't tell"]


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
      name: key of its values in the rows.
      title: the heading.
      unit: unit of the values, or "".
      decimals: digits to print after the point.
    """

    name: str
    title: str
    unit: str = ""
    decimals: int = 3

    @property
    def heading(self) -> str:
        """The title with the unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def printed(self, value: float) -> str:
        """A value with the column's decimals.

        >>> Column("parameters", "parameters", decimals=0).printed(11683584.0)
        '11,683,584'
        """
        return f"{value:,.{self.decimals}f}"


@dataclass(frozen=True)
class ResultRow:
    """A row of the table; columns without a value are absent.

    Attributes:
      name: identifies the row in comparisons.
      title: the model's name in the paper.
      paper: column -> the paper's value.
      ours: column -> our values.
    """

    name: str
    title: str
    paper: Mapping[str, Number] = field(default_factory=dict)
    ours: Mapping[str, Sequence[Number]] = field(default_factory=dict)


@dataclass(frozen=True)
class Plot:
    """A picture in the folder of results.json."""

    file: str
    caption: str


@dataclass(frozen=True)
class RowComparison:
    """Whether one row is higher than another in a column, by more than its spread.

    Attributes:
      row: a row's name.
      than: the other row's name.
      column: a column's name.
      difference: mean of `row` minus mean of `than`.
      spread: standard error of the difference; None with a single seed.
      verdict: on our values.
      paper: on the paper's values; None if it has none.
    """

    row: str
    than: str
    column: str
    difference: Number
    spread: Number | None
    verdict: Verdict
    paper: Verdict | None = None


@dataclass(frozen=True)
class Results:
    """What an experiment writes.

    Attributes:
      experiment: the name of its command.
      title: a heading.
      paper: where it is in the paper.
      question: what it asks, in one sentence.
      scale: tiny, small or paper; "" if the experiment has none.
      seeds: seeds of the runs; trained models have one value per seed.
      command: the command line.
      settings: everything that determines the numbers.
      environment: versions, machine, date.
      columns: of the table.
      rows: of the table.
      plots: pictures in the same folder.
      comparisons: the paper's comparisons, made with our values.
      notes: sentences on how to read the numbers.
    """

    experiment: str
    title: str
    paper: str
    question: str
    scale: str
    seeds: Sequence[int]
    command: str
    settings: Mapping[str, Any]
    environment: Mapping[str, Any]
    columns: Sequence[Column]
    rows: Sequence[ResultRow]
    plots: Sequence[Plot] = field(default_factory=list)
    comparisons: Sequence[RowComparison] = field(default_factory=list)
    notes: Sequence[str] = field(default_factory=list)

    def column(self, name: str) -> Column:
        """The column with that name."""
        return {column.name: column for column in self.columns}[name]

    def row(self, name: str) -> ResultRow:
        """The row with that name."""
        return {row.name: row for row in self.rows}[name]

    def write(self, folder: Path) -> None:
        """Writes results.md and results.json, each complete or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / MARKDOWN_FILE, self.page())
        text = json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False, allow_nan=False)
        write_text(folder / RESULTS_FILE, text + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a results.json, or the one in a folder."""
        path = path / RESULTS_FILE if path.is_dir() else path
        return as_record(cls, read_json_object(path), path)

    def page(self, pictures: str = "") -> str:
        """The content of results.md; `pictures` is the path of their folder, relative to the page's."""
        parts = [
            f"# {self.title} ({self.paper})",
            self.question,
            f"    {self.command}" if self.command else "",
            self._caption(),
            self.table(),
            *(f"![{plot.caption}]({pictures}{plot.file})" for plot in self.plots),
            "\n".join(f"- {self.sentence(comparison)}" for comparison in self.comparisons),
            "\n".join(f"- {note}" for note in self.notes),
            ", ".join(f"{name} {value}" for name, value in self.environment.items()),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def table(self) -> str:
        """The table, with columns for the paper's values and for ours where there are any."""
        headings, lines = [""], [[row.title] for row in self.rows]
        for column in self.columns:
            # The paper's whole numbers, such as millions of parameters, stay whole.
            papers = [row.paper.get(column.name) for row in self.rows]
            ours = [row.ours.get(column.name) for row in self.rows]
            printed = {
                "paper": [
                    "" if value is None else f"{value:,}" if isinstance(value, int) else column.printed(value)
                    for value in papers
                ],
                "ours": [_summary(values, column) if values else "" for values in ours],
            }
            for whose, cells in printed.items():
                if any(cells):
                    headings.append(f"{column.heading}, {whose}")
                    for line, cell in zip(lines, cells, strict=True):
                        line.append(cell)
        return markdown_table(headings, lines)

    def sentence(self, comparison: RowComparison) -> str:
        """A comparison as text, such as "SOP against NSP, SOP: higher (+9.0 ± 0.8); the paper: higher"."""
        column = self.column(comparison.column)
        titles = f"{self.row(comparison.row).title} against {self.row(comparison.than).title}, {column.title}"
        paper = f"; the paper: {comparison.paper}" if comparison.paper else ""
        size = f"{comparison.difference:+,.{column.decimals}f}"
        if comparison.spread is None:
            return f"{titles}: can't tell from one seed ({size}){paper}"
        return f"{titles}: {comparison.verdict} ({size} ± {column.printed(comparison.spread)}){paper}"

    def _caption(self) -> str:
        has_rounds = any(len(row.ours.get("speed", ())) > 1 for row in self.rows)
        rounds = "Speeds: mean ± standard deviation over the rounds." if has_rounds else ""
        if not self.seeds:
            return rounds
        scale = f"Scale {self.scale}; ours" if self.scale else "Ours"
        seeds = len(self.seeds)
        spread = "one seed" if seeds == 1 else f"mean ± standard deviation of {seeds} seeds"
        return f"{scale}: {spread}. Differences are given with their standard errors. {rounds}".rstrip()


def write_report(folder: Path) -> Path:
    """Writes FOLDER/report.md, the pages of all experiments of a laboratory, tables first; returns its path."""
    found = [(Results.read(path), f"{path.parent.name}/") for path in folder.glob(f"*/{RESULTS_FILE}")]
    if not found:
        raise InputError(
            f"A laboratory must hold an experiment, such as table4/{RESULTS_FILE}. Received {folder}, which has "
            "none."
        )
    # "table10" comes after "table9", and figures after tables.
    found.sort(key=lambda each: (each[0].experiment.startswith("figure"), len(each[1]), each[1]))
    report = folder / REPORT_FILE
    write_text(report, "\n".join(results.page(pictures) for results, pictures in found))
    return report


def _summary(values: Sequence[float], column: Column) -> str:
    mean, spread = mean_and_spread(values)
    return column.printed(mean) if spread is None else f"{column.printed(mean)} ± {column.printed(spread)}"


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and the sample standard deviation; None as the deviation of a single value.

    >>> mean_and_spread([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def compare_rows(
    rows: Sequence[ResultRow], row: str, than: str, column: str, paper_column: str | None = None
) -> RowComparison | None:
    """Compares the means of two rows; returns None if one of them has no value of ours in the column.

    A row is called higher or lower only if Welch's t-test, for rows with different spreads, finds the difference
    significant at 5%, and never from a single seed.

    Args:
      rows: of the table.
      row: a row's name.
      than: the other row's name.
      column: the column in which our values are compared.
      paper_column: the column in which the paper's values are compared, by default the same.
    """
    by_name = {each.name: each for each in rows}
    one, other = by_name[row], by_name[than]
    ours, others = one.ours.get(column), other.ours.get(column)
    if not ours or not others:
        return None
    difference = statistics.fmean(ours) - statistics.fmean(others)
    error = None
    verdict: Verdict = "can't tell"
    if len(ours) > 1 and len(others) > 1:
        error = math.sqrt(sum(statistics.variance(values) / len(values) for values in (ours, others)))
        with needs_extra("Welch's t-test", "scipy", "metrics"):
            from scipy import stats

        # Without any spread the test divides by 0.
        if difference and (
            not error or stats.ttest_ind(ours, others, equal_var=False).pvalue < _SIGNIFICANCE
        ):
            verdict = "higher" if difference > 0 else "lower"
    paper = _paper_verdict(one, other, paper_column or column)
    return RowComparison(row, than, column, difference, error, verdict, paper)


def _paper_verdict(one: ResultRow, other: ResultRow, column: str) -> Verdict | None:
    """The paper prints single numbers, so any difference decides."""
    if column not in one.paper or column not in other.paper:
        return None
    difference = one.paper[column] - other.paper[column]
    return "can't tell" if difference == 0 else "higher" if difference > 0 else "lower"
