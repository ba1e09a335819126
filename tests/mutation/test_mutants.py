"""The mutants of a small module, and the outcome of their tests."""

import pytest

pytest.importorskip("cosmic_ray", reason="needs the extra [mutation]")

from tests.mutation.mutants import mutants_of
from tests.mutation.targets import ROOT, TARGETS

SOURCE = '''"""A module."""
Pair = int | str


def add(a: int | None, b: Pair = 3) -> int:
    """Adds."""
    return (a or 0) + b
'''


def test_mutants_change_what_is_computed():
    mutants = [one for one in mutants_of("a.py", SOURCE) if one.changes_behaviour(SOURCE)]
    assert {one.line for one in mutants} == {5, 7}, "neither the annotations nor the alias"
    changed = {one.source(SOURCE).splitlines()[one.line - 1].strip() for one in mutants}
    assert {"return (a or 0) - b", "return (a and 0) + b"} <= changed
    assert any("b: Pair = 4" in " ".join(line.split()) for line in changed)


def test_targets_exist():
    assert all((ROOT / path).is_file() for module, tests in TARGETS.items() for path in (module, *tests))
