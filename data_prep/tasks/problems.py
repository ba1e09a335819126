"""What is wrong with a task's rows: counted and shown, never dropped without a word."""

from collections import Counter

from data_prep.errors import InputError

_SHOWN = 3  # of each kind


class Problems:
    """Collects what readers stumble over.

    >>> problems = Problems()
    >>> problems.add("label outside the set", "train.tsv:17", "received 'maybe'")
    >>> problems.lines()
    ["1 row: label outside the set, left out (train.tsv:17: received 'maybe')"]
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._first: dict[str, list[str]] = {}

    def add(self, kind: str, where: str, detail: str, *, outcome: str = "left out") -> None:
        """Notes a row.

        Args:
          kind: what is wrong, the same words for all rows of a kind.
          where: file and line, or file and id.
          detail: what was received.
          outcome: what became of the row.
        """
        kind = f"{kind}, {outcome}"
        self.counts[kind] += 1
        first = self._first.setdefault(kind, [])
        if len(first) < _SHOWN:
            first.append(f"{where}: {detail}")

    def lines(self) -> list[str]:
        """A line for each kind with its count and its first rows."""
        return [
            f"{count:,} {'row' if count == 1 else 'rows'}: {kind} ({'; '.join(self._first[kind])}"
            f"{'; ...' if count > len(self._first[kind]) else ''})"
            for kind, count in self.counts.items()
        ]

    def check(self, *, strict: bool) -> None:
        """Raises InputError if there are problems and `strict` says that there must be none."""
        if strict and self.counts:
            raise InputError(f"--strict allows no problem in the data. Received {'; '.join(self.lines())}.")
