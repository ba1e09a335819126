"""How numbers are printed, the same on every page."""

import statistics
from collections.abc import Sequence

from albert_tf.lab.results import Column, Results, mean_and_spread


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
    """A value of the paper's: whole numbers, such as millions of parameters, stay whole.

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
    """What the seeds came to: mean ± standard deviation, or median (minimum to maximum); one value as it is.

    >>> summary([0.6, 0.7], Column("sop", "SOP"), results)
    '0.650 ± 0.071'
    """
    if len(values) == 1:
        return number(values[0], column)
    if results.statistic == "median":
        low, high = number(min(values), column), number(max(values), column)
        return f"{number(statistics.median(values), column)} ({low} to {high})"
    mean, spread = mean_and_spread(values)
    assert spread is not None
    return f"{number(mean, column)} ± {number(spread, column)}"
