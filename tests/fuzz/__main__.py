"""Changes files at random and reads them: any bytes must give a result or an InputError.

    python -m tests.fuzz --cases=1000 --seed=1 [--reader=NAME] [--first=CASE]

Prints a table, and for each place of an unexpected exception a traceback. A case depends on the seed, the reader's
name and its own number, so `--first=CASE --cases=1` repeats it. The exit status is 1 if there are failures.
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from rich.console import Console
from rich.table import Table

from tests.fuzz.campaign import Outcome, run
from tests.fuzz.readers import READERS


def main() -> int:
    """Runs the cases of all readers, or of one; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Mutation fuzzing of all readers."
    )
    parser.add_argument("--cases", type=int, default=100, help="of each reader")
    parser.add_argument("--seed", type=int, default=0, help="of all random choices")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--reader", choices=[reader.name for reader in READERS], help="default: all")
    flags = parser.parse_args()
    numbers = range(flags.first, flags.first + flags.cases)
    outcomes = {}
    for reader in READERS:
        if flags.reader in (None, reader.name):
            outcomes[reader.name] = run(reader, numbers, flags.seed)
            print(".", end="", file=sys.stderr, flush=True)
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(_table(outcomes, flags.cases))
    for name, outcome in outcomes.items():
        for place, (case, text) in outcome.examples.items():
            print(f"\n--reader={name!r} --first={case}: {place}, {outcome.failures[place]} cases\n{text}")
    return int(any(outcome.failures for outcome in outcomes.values()))


def _table(outcomes: dict[str, Outcome], cases: int) -> Table:
    columns = ("refused", "unchanged", "changed", "tracebacks", "slowest, s", "peak, MB")
    table = Table("reader", "cases", *columns)
    for name, outcome in outcomes.items():
        counts = (outcome.refused, outcome.unchanged, outcome.changed, outcome.failures.total())
        table.add_row(name, str(cases), *map(str, counts), f"{outcome.slowest:.2f}", str(outcome.memory))
    return table


if __name__ == "__main__":
    sys.exit(main())
