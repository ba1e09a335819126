import dataclasses

import pytest

from albert_tf.lab.report import section
from albert_tf.lab.results import Column, Plot, ResultRow, Results, compare_rows
from albert_tf.lab.tables import markdown_page, results_table, spread_over


def results(seeds: int) -> Results:
    rows = [
        ResultRow(
            "nsp", "NSP", {"sop": 52.0, "size": 12}, {"sop": [50.0, 52.0, 51.0][:seeds], "size": [0.5]}
        ),
        ResultRow("sop", "SOP", {"sop": 86.5, "avg": 80.1}, {"sop": [61.0, 62.0, 60.0][:seeds]}),
    ]
    return Results(
        experiment="table5",
        title="Sentence objectives",
        paper="Table 5",
        question="Does it?",
        scale="tiny",
        seeds=list(range(1, seeds + 1)),
        command="albert lab table5",
        settings={},
        environment={"cores": 2},
        columns=[
            Column("size", "Size", "millions", 2),
            Column("sop", "SOP", "%", 1),
            Column("avg", "Avg", "", 1),
        ],
        rows=rows,
        plots=[Plot("curves.png", "Curves.")],
        comparisons=[compare_rows(rows, "sop", "nsp", "sop")],
        notes=["By chance 50."],
    )


def test_the_table_has_the_papers_numbers_beside_ours():
    assert results_table(results(3)).split("\n") == [
        "|  | Size (millions), paper | Size (millions), ours | SOP (%), paper | SOP (%), ours | Avg, paper |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| NSP | 12 | 0.50 | 52.0 | 51.0 ± 1.0 |  |",
        "| SOP |  |  | 86.5 | 61.0 ± 1.0 | 80.1 |",
    ]


def test_the_page_has_the_findings_and_how_they_were_made():
    page = markdown_page(results(3))
    assert "# Sentence objectives (Table 5)" in page
    assert "mean ± standard deviation of 3 seeds" in page
    assert "- SOP against NSP, SOP: higher (+10.0 ± 0.8); the paper: higher" in page
    assert "![Curves.](curves.png)" in page
    assert page.endswith("- By chance 50.\n\ncores 2\n")


def test_one_seed_claims_nothing():
    page = markdown_page(results(1))
    assert "ours: one seed" in page
    assert "SOP against NSP, SOP: can't tell from one seed (+11.0); the paper: higher" in page
    assert "±" not in page.split("|")[20]


@pytest.mark.parametrize(
    ("seeds", "over"), [(3, "over the seeds; of speeds, over the rounds"), (0, "over the rounds")]
)
def test_the_values_of_speeds_are_those_of_rounds(tmp_path, seeds, over):
    rows = [ResultRow("one", "One", {}, {"speed": [0.9, 1.0, 1.1]})]
    columns = [Column("speed", "Speed", "", 2)]
    of_speed = dataclasses.replace(results(seeds), rows=rows, columns=columns, plots=[], comparisons=[])
    assert spread_over(of_speed) == over
    assert ("numbers", f"mean ± standard deviation {over}") in section(of_speed, tmp_path).facts
    assert "Speeds: mean ± standard deviation over the rounds." in markdown_page(of_speed)
    assert spread_over(results(3)) == "over the seeds"
