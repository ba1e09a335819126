"""The rows of data that cannot be used, collected by kind, so that none is dropped silently."""

from collections import Counter
from typing import Any

from data_prep.errors import InputError

_SHOWN_ROWS = 3  # of each kind of problem
_SHOWN_CHARACTERS = 60


class Problems:
    """Collects the rows that a reader cannot use, so that none is dropped silently.

    >>> problems = Problems()
    >>> problems.add("label outside the set", "train.tsv:17", "received 'maybe'")
    >>> problems.lines()
    ["1 row: label outside the set, left out (train.tsv:17: received 'maybe')"]
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._first: dict[str, list[str]] = {}

    def add(self, kind: str, where: str, detail: str, *, outcome: str = "left out") -> None:
        """Records a row.

        Args:
          kind: what is wrong, in the same words for all rows of a kind.
          where: file and line, or file and id.
          detail: what was received.
          outcome: what was done with the row.
        """
        kind = f"{kind}, {outcome}"
        self.counts[kind] += 1
        first = self._first.setdefault(kind, [])
        if len(first) < _SHOWN_ROWS:
            first.append(f"{where}: {detail}")

    def rename(self, before: str, name: str) -> None:
        """Names a file as its user did, where rows were read from a copy."""
        for first in self._first.values():
            first[:] = [row.replace(before, name) for row in first]

    def lines(self) -> list[str]:
        """One line for each kind of problem: its count and its first rows."""
        return [
            f"{count:,} {'row' if count == 1 else 'rows'}: {kind} ({'; '.join(self._first[kind])}"
            f"{'; ...' if count > len(self._first[kind]) else ''})"
            for kind, count in self.counts.items()
        ]

    def check(self, *, strict: bool) -> None:
        """Raises InputError if `strict` is set and there are problems."""
        if strict and self.counts:
            raise InputError(f"--strict allows no problem in the data. Received {'; '.join(self.lines())}.")


def shown(value: Any) -> str:
    """A value as messages show it: its `repr`, truncated."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} that is nested too deeply"
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 4] + " ..."
