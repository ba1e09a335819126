"""Mutation testing: changes the code that computes, one place at a time, and runs the fast tests of its module.

    python -m tests.mutation --output=mutants.jsonl [--mutants=500] [--seed=0] [--module=albert_tf/flops.py]

Prints how many mutants the tests notice, and the lines of those that they don't. Every outcome is written to the
file at once, so the same command resumes; --again retries the mutants that survived. Needs
`pip install '.[mutation]'`. A mutant takes seconds, 500 of them half an hour of one core.
"""

import argparse
import difflib
import itertools
import json
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.targets import ROOT, TARGETS
from tests.mutation.trials import Trial, try_source

PATIENCE = 4  # a mutant may use so many times as much processor time as the original, and 20 seconds


def main() -> int:
    """Tries the mutants; the exit status is 1 if less than nine tenths are noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="Mutation testing.")
    parser.add_argument("--output", type=Path, required=True, help="the outcomes, one JSON object a line")
    parser.add_argument("--mutants", type=int, default=500, help="size of the random sample")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--module", choices=list(TARGETS), help="default: all, in proportion to their size")
    parser.add_argument("--workers", type=int, default=1, help="mutants tried at once")
    parser.add_argument("--again", action="store_true", help="retry the mutants that survived")
    flags = parser.parse_args()
    modules = [flags.module] if flags.module else list(TARGETS)
    sources = {module: (ROOT / module).read_text() for module in modules}
    sample = _sample(sources, flags.mutants, flags.seed)
    outcomes = _known(flags.output, sample, sources, flags.again)
    originals = _originals({mutant.module for mutant in sample if mutant not in outcomes}, sources)
    with (
        Progress(console=Console(stderr=True)) as progress,
        flags.output.open("a") as file,
        ThreadPoolExecutor(flags.workers) as pool,
    ):
        left = [mutant for mutant in sample if mutant not in outcomes]
        task = progress.add_task("mutants", total=len(sample), completed=len(outcomes))
        trials = pool.map(lambda mutant: _try(mutant, sources[mutant.module], originals), left)
        for mutant, outcome in zip(left, trials, strict=True):
            outcomes[mutant] = outcome
            file.write(json.dumps(outcome) + "\n")
            file.flush()
            progress.advance(task)
    noticed = _report(sample, outcomes)
    return int(noticed < 0.9 * len(sample))


def _sample(sources: dict[str, str], size: int, seed: int) -> list[Mutant]:
    """One mutant each of a random sample of places, since a `+` alone has eleven."""
    places: dict[tuple[str, int, int], list[Mutant]] = {}
    for module, source in sources.items():
        for mutant in mutants_of(module, source):
            places.setdefault((module, mutant.line, mutant.column), []).append(mutant)
    draws = random.Random(seed)
    mutants = (draws.choice(choices) for choices in draws.sample(list(places.values()), len(places)))
    changing = (mutant for mutant in mutants if mutant.changes_behaviour(sources[mutant.module]))
    return sorted(itertools.islice(changing, size), key=lambda mutant: (mutant.module, mutant.line))


def _known(
    output: Path, sample: list[Mutant], sources: dict[str, str], again: bool
) -> dict[Mutant, dict[str, object]]:
    """Outcomes in the file that hold for the present source."""
    if not output.exists():
        return {}
    kept = {}
    for row in map(json.loads, output.read_text().splitlines()):
        kept[row["module"], row["diff"]] = row
    known = {}
    for mutant in sample:
        row = kept.get((mutant.module, _diff(mutant, sources[mutant.module])))
        if row and not (again and row["outcome"] == "survived"):
            known[mutant] = row
    return known


def _originals(modules: set[str], sources: dict[str, str]) -> dict[str, Trial]:
    """What the tests of each module make of the original, which must pass them."""
    trials = {}
    for module in sorted(modules):
        trials[module] = try_source(module, sources[module], TARGETS[module], limit=1200, durations={})
        if not trials[module].passed:
            sys.exit(f"The tests of {module} fail before anything is changed.")
        print(f"{module}: tests take {trials[module].seconds:.0f} s", file=sys.stderr)
    return trials


def _try(mutant: Mutant, source: str, originals: dict[str, Trial]) -> dict[str, object]:
    original = originals[mutant.module]
    trial = try_source(
        mutant.module,
        mutant.source(source),
        TARGETS[mutant.module],
        limit=20 + PATIENCE * original.seconds,
        durations=original.durations,
    )
    outcome = {True: "survived", False: "noticed", None: "noticed, no answer"}[trial.passed]
    return {
        "module": mutant.module,
        "line": mutant.line,
        "outcome": outcome,
        "seconds": round(trial.seconds, 1),
        "diff": _diff(mutant, source),
    }


def _diff(mutant: Mutant, source: str) -> str:
    """The changed lines, before and after."""
    lines = difflib.ndiff(source.splitlines(), mutant.source(source).splitlines())
    return "\n".join(line for line in lines if line[:1] in "-+")


def _report(sample: list[Mutant], outcomes: dict[Mutant, dict[str, object]]) -> int:
    """Prints the table and the survivors; returns how many mutants were noticed."""
    survivors = [mutant for mutant in sample if outcomes[mutant]["outcome"] == "survived"]
    for mutant in survivors:
        print(f"{mutant.module}:{mutant.line}\n{outcomes[mutant]['diff']}\n")
    table = Table("module", "mutants", "noticed")
    for module in sorted({mutant.module for mutant in sample}):
        count = sum(mutant.module == module for mutant in sample)
        alive = sum(mutant.module == module for mutant in survivors)
        table.add_row(module, str(count), f"{count - alive} ({(count - alive) / count:.0%})")
    noticed = len(sample) - len(survivors)
    table.add_row("all", str(len(sample)), f"{noticed} ({noticed / len(sample):.1%})", style="bold")
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    return noticed


if __name__ == "__main__":
    sys.exit(main())
