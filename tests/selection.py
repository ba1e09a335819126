"""Which of many like cases `make test` runs; `make test-all` runs all of them."""

from collections.abc import Container, Iterable

import pytest


def all_but_very_slow(cases: Iterable, kept: Container) -> list:
    """The parameters of a test: those that are not in `kept` are among the very slow tests."""
    return [case if case in kept else pytest.param(case, marks=pytest.mark.very_slow) for case in cases]
