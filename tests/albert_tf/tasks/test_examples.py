"""Problems are counted and shown; with --strict they are fatal."""

import pytest

from albert_tf.tasks.problems import Problems
from data_prep.errors import InputError


def test_each_kind_is_counted_with_its_first_rows():
    problems = Problems()
    for line in range(5):
        problems.add("empty text", f"a.tsv:{line}", "received ''")
    problems.add("label outside the set", "a.tsv:9", "received 'x'")
    assert problems.lines() == [
        "5 rows: empty text, left out (a.tsv:0: received ''; a.tsv:1: received ''; a.tsv:2: received ''; ...)",
        "1 row: label outside the set, left out (a.tsv:9: received 'x')",
    ]


def test_strict_allows_no_problem():
    problems = Problems()
    problems.check(strict=True)
    problems.add("empty text", "a.tsv:1", "received ''")
    problems.check(strict=False)
    with pytest.raises(InputError, match="1 row: empty text, left out"):
        problems.check(strict=True)
