"""What an experiment found: the paper's numbers beside ours, of which there is one a seed; results.json."""

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from data_prep.errors import InputError
from data_prep.files import write_text

RESULTS_FILE = "results.json"
Verdict = Literal["higher", "lower", "can't tell"]


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
      name: its key in rows.
      title: its heading.
      unit: of its values; "" where the title says it all.
      decimals: digits to print.
      higher_is_better: None where neither is, as of parameters.
    """

    name: str
    title: str
    unit: str = ""
    decimals: int = 3
    higher_is_better: bool | None = True


@dataclass(frozen=True)
class Row:
    """A row of the table; a key that is missing is a number that is not there.

    Attributes:
      name: its key in comparisons.
      title: what it is called in the paper.
      paper: column -> the paper's value.
      ours: column -> our values, one a seed.
    """

    name: str
    title: str
    paper: Mapping[str, float] = field(default_factory=dict)
    ours: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Plot:
    """A picture that lies beside results.json."""

    file: str
    caption: str


@dataclass(frozen=True)
class Comparison:
    """Whether a row is above another one, in a column, by more than chance would have it.

    Attributes:
      row: a row's name.
      than: the other row's name.
      column: a column's name.
      difference: mean of `row` minus mean of `than`.
      spread: standard error of the difference; None with a single seed.
      verdict: of ours.
      paper: of the paper; None where it has no such numbers.
    """

    row: str
    than: str
    column: str
    difference: float
    spread: float | None
    verdict: Verdict
    paper: Verdict | None = None


@dataclass(frozen=True)
class Results:
    """Everything that an experiment's page shows.

    Attributes:
      experiment: the name that `albert lab` knows it by.
      title: one line.
      paper: where in the paper.
      question: one sentence, what it asks.
      scale: tiny, small or paper.
      seeds: of the runs; as many values has each number of a trained model.
      command: as it was typed.
      settings: everything that fixes the numbers.
      environment: versions, machine, date.
      columns: of the table.
      rows: of the table.
      plots: pictures in the same folder.
      comparisons: what the paper claims, asked of ours.
      notes: sentences on how to read the numbers.
      statistic: what stands for several seeds in the table.
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
    rows: Sequence[Row]
    plots: Sequence[Plot] = ()
    comparisons: Sequence[Comparison] = ()
    notes: Sequence[str] = ()
    statistic: Literal["mean", "median"] = "mean"

    def column(self, name: str) -> Column:
        """The column of that name."""
        return next(column for column in self.columns if column.name == name)

    def row(self, name: str) -> Row:
        """The row of that name."""
        return next(row for row in self.rows if row.name == name)

    def write(self, folder: Path) -> Path:
        """Writes results.json into a folder that is there, whole or not at all; returns its path."""
        path = folder / RESULTS_FILE
        text = json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False, allow_nan=False)
        write_text(path, text + "\n")
        return path

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a results.json, or that of a folder.

        Raises:
          InputError: there is none, or it is of something else.
        """
        path = path / RESULTS_FILE if path.is_dir() else path
        try:
            values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            for name, kind in _KINDS.items():
                values[name] = [kind(**value) for value in values[name]]
            return cls(**values)
        except FileNotFoundError:
            raise InputError(f"An experiment's folder holds {RESULTS_FILE}. There is no {path}.") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"{path} must be the {RESULTS_FILE} of an experiment of `albert lab`. Received another file: "
                f"{error}."
            ) from None


# What the lists of a results.json hold.
_KINDS: dict[str, type] = {"columns": Column, "rows": Row, "plots": Plot, "comparisons": Comparison}


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and the sample standard deviation, which one value does not have.

    >>> mean_and_spread([1.0, 3.0])
    (2.0, 1.4142135623730951)
    >>> mean_and_spread([1.0])
    (1.0, None)
    """
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def compare(
    rows: Sequence[Row], row: str, than: str, column: str, paper_column: str | None = None
) -> Comparison | None:
    """Compares the means of two rows; None where one of them has no value of ours in the column.

    A difference is claimed only if it is larger than twice its standard error (Welch's, which lets the rows
    have spreads of their own), and never from a single seed.

    Args:
      rows: of the table.
      row: a row's name.
      than: the other row's name.
      column: what of ours to compare.
      paper_column: what of the paper to compare, if it is something else.
    """
    one, other = (next(each for each in rows if each.name == name) for name in (row, than))
    ours, others = one.ours.get(column), other.ours.get(column)
    if not ours or not others:
        return None
    difference = statistics.fmean(ours) - statistics.fmean(others)
    error = None
    if len(ours) > 1 and len(others) > 1:
        error = math.sqrt(statistics.variance(ours) / len(ours) + statistics.variance(others) / len(others))
    verdict: Verdict = "can't tell"
    if error is not None and abs(difference) > 2 * error:
        verdict = "higher" if difference > 0 else "lower"
    return Comparison(
        row, than, column, difference, error, verdict, _paper_verdict(one, other, paper_column or column)
    )


def _paper_verdict(one: Row, other: Row, column: str) -> Verdict | None:
    """The paper gives single numbers, so that only equal ones tell nothing."""
    if column not in one.paper or column not in other.paper:
        return None
    difference = one.paper[column] - other.paper[column]
    return "can't tell" if difference == 0 else "higher" if difference > 0 else "lower"
