"""docs/results.md agrees with the results files in docs/results."""

import re
from pathlib import Path

import pytest

from experiments.paper.results import Results, compare_rows

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "results.md").read_text(encoding="utf-8")
FILES = sorted((DOCS / "results").glob("*.json"))
NUMBER = re.compile(r"\d+\.\d+")


def section(results: Results) -> str:
    """The part of the page under the experiment's heading."""
    return PAGE.partition(f"\n## {results.paper}: {results.title}\n")[2].partition("\n## ")[0]


def generated(results: Results) -> list[str]:
    """The tables and comparisons that the page copies from the generated text."""
    sentences = (results.sentence(comparison) for comparison in results.comparisons)
    return [results.table(), *(f"- {sentence}" for sentence in sentences)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_tables_and_comparisons_are_those_of_the_results(file):
    results = Results.read(file)
    page = section(results)
    for text in (*generated(results), f"    {results.command}\n"):
        assert text in page


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_comparisons_follow_from_the_rows(file):
    results = Results.read(file)
    for stored in results.comparisons:
        found = compare_rows(results.rows, stored.row, stored.than, stored.column)
        assert (found.verdict, found.difference, found.spread) == (
            stored.verdict,
            pytest.approx(stored.difference),
            stored.spread and pytest.approx(stored.spread),
        )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_number_in_the_text_is_in_the_results(file):
    results = Results.read(file)
    known = {number for text in generated(results) for number in NUMBER.findall(text)}
    text = [line for line in section(results).splitlines() if not line.startswith("    ")]  # no commands
    assert set(NUMBER.findall("\n".join(text))) <= known


def test_every_section_has_its_results():
    assert FILES
    headings = re.findall(r"^## (.*)$", PAGE, re.M)
    assert sorted(headings) == sorted(f"{r.paper}: {r.title}" for r in map(Results.read, FILES))
