"""Which of many like cases `make test` runs; `make test-all` runs the others."""

from collections.abc import Container, Iterable

import pytest


def all_but_very_slow(cases: Iterable, kept: Container) -> list:
    """The parameters of a test: those that are not in `kept` are among the very slow tests.

    Args:
      cases: the values, or tuples of values for several parameters.
      kept: those that are not very slow.
    """
    return [case if case in kept else _very_slow(case) for case in cases]


def _very_slow(case):
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.very_slow)
