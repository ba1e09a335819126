"""The results of an experiment, the paper's numbers beside ours, and the file results.json that holds them."""

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec

from data_prep.files import Number, as_record, read_json_object, write_text

LAB_RESULTS_FILE = "results.json"
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
    decimals: Annotated[int, msgspec.Meta(ge=0, le=20)] = 3


@dataclass(frozen=True)
class ResultRow:
    """A row of the table; columns without a value are absent.

    Attributes:
      name: identifies the row in comparisons.
      title: the model's name in the paper.
      paper: column -> the paper's value.
      ours: column -> our values, one per seed.
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
    """Everything that the page of an experiment shows.

    Attributes:
      experiment: the name of its `albert lab` command.
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
      statistic: what the table shows for several seeds.
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
    plots: Sequence[Plot] = ()
    comparisons: Sequence[RowComparison] = ()
    notes: Sequence[str] = ()
    statistic: Literal["mean", "median"] = "mean"

    def column(self, name: str) -> Column:
        """The column with that name, or KeyError."""
        return {column.name: column for column in self.columns}[name]

    def row(self, name: str) -> ResultRow:
        """The row with that name, or KeyError."""
        return {row.name: row for row in self.rows}[name]

    def write(self, folder: Path) -> Path:
        """Writes results.json, complete or not at all, into an existing folder; returns its path."""
        path = folder / LAB_RESULTS_FILE
        text = json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False, allow_nan=False)
        write_text(path, text + "\n")
        return path

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a results.json, or the one in a folder.

        Raises:
          InputError: the file is missing, or is not the results.json of an experiment.
        """
        path = path / LAB_RESULTS_FILE if path.is_dir() else path
        values = read_json_object(path)
        where = (
            f"{path} must be the {LAB_RESULTS_FILE} of an experiment of `albert lab`. Received another file"
        )
        return as_record(cls, values, where)


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and the sample standard deviation; None as the deviation of a single value.

    >>> mean_and_spread([1.0, 3.0])
    (2.0, 1.4142135623730951)
    >>> mean_and_spread([1.0])
    (1.0, None)
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
        squares = [statistics.variance(values) / len(values) for values in (ours, others)]
        error = math.sqrt(sum(squares))
        degrees = (len(ours) - 1, len(others) - 1)
        if difference and (not error or _welch_p(difference, squares, degrees) < _SIGNIFICANCE):
            verdict = "higher" if difference > 0 else "lower"
    return RowComparison(
        row, than, column, difference, error, verdict, _paper_verdict(one, other, paper_column or column)
    )


def _welch_p(difference: float, squares: Sequence[float], degrees: Sequence[int]) -> float:
    """The probability of such a difference, or a larger one, between equal means.

    Args:
      difference: of the two means.
      squares: the square of each mean's standard error; one is above 0.
      degrees: the degrees of freedom of each, at least 1.
    """
    # Welch-Satterthwaite.
    total = sum(squares)
    freedom = total**2 / sum(square**2 / of_one for square, of_one in zip(squares, degrees, strict=True))
    # With t = sqrt(freedom) * tan(angle), the density of Student's t is cos(angle) ** (freedom - 1).
    steps = 1000
    width = math.atan(abs(difference) / math.sqrt(total * freedom)) / steps
    within = width * sum(math.cos((i + 0.5) * width) ** (freedom - 1) for i in range(steps))
    half = math.sqrt(math.pi) / 2 * math.exp(math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2))
    return 1 - within / half


def _paper_verdict(one: ResultRow, other: ResultRow, column: str) -> Verdict | None:
    """The paper prints single numbers, so any difference decides."""
    if column not in one.paper or column not in other.paper:
        return None
    difference = one.paper[column] - other.paper[column]
    return "can't tell" if difference == 0 else "higher" if difference > 0 else "lower"
