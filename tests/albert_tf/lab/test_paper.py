"""The printed numbers: the paper computes one of them from the others."""

import statistics

import pytest

from albert_tf.lab import paper

TABLES = {
    "table 2": paper.TABLE_2,
    "table 3": paper.TABLE_3,
    "table 4": paper.TABLE_4,
    "table 5": paper.TABLE_5,
    "table 6": paper.TABLE_6,
    "figure 2": paper.FIGURE_2,
    "table 11": paper.TABLE_11,
    "table 12": paper.TABLE_12,
}


@pytest.mark.parametrize("table", TABLES)
def test_the_average_is_that_of_the_tasks(table):
    for row, scores in TABLES[table].items():
        mean = statistics.fmean(scores[task] for task in paper.TASKS)
        assert scores["average"] == pytest.approx(mean, abs=0.0501), (table, row)  # it is printed to a tenth
