"""Averages come out as the paper and GLUE's leaderboard print them."""

import pytest

from albert_tf.evaluation.averages import GLUE_TASKS, glue_average, paper_average, task_score

# The paper's Table 2: SQuAD1.1 F1/EM, SQuAD2.0 F1/EM, MNLI, SST-2, RACE and Avg.
TABLE_2 = {
    "BERT base": (90.4, 83.2, 80.4, 77.6, 84.5, 92.8, 68.2, 82.3),
    "BERT large": (92.2, 85.5, 85.0, 82.2, 86.6, 93.0, 73.9, 85.2),
    "ALBERT base": (89.3, 82.3, 80.0, 77.1, 81.6, 90.3, 64.0, 80.1),
    "ALBERT large": (90.6, 83.9, 82.3, 79.4, 83.5, 91.7, 68.5, 82.4),
    "ALBERT xlarge": (92.5, 86.1, 86.1, 83.1, 86.4, 92.4, 74.8, 85.5),
    "ALBERT xxlarge": (94.1, 88.3, 88.1, 85.1, 88.0, 95.2, 82.3, 88.7),
}


@pytest.mark.parametrize("row", TABLE_2)
def test_the_paper(row):
    f1, exact_match, f1_2, exact_2, mnli, sst, race, average = TABLE_2[row]
    received = paper_average(
        {
            "squad1.1": {"f1": f1, "exact_match": exact_match},
            "squad2.0": {"f1": f1_2, "exact": exact_2},
            "mnli": {"accuracy": mnli / 100},
            "sst-2": {"accuracy": sst / 100},
            "race": {"accuracy": race / 100, "accuracy_middle": 0.0},
        }
    )
    # The table's own numbers are rounded before and after.
    assert received == pytest.approx(average, abs=0.1)


def test_glue():
    """ALBERT's ensemble on the leaderboard: 89.4."""
    results = {
        "cola": {"matthews": 0.691, "accuracy": 0.0},
        "sst-2": {"accuracy": 0.971},
        "mrpc": {"f1": 0.934, "accuracy": 0.912},
        "sts-b": {"pearson": 0.925, "spearman": 0.920},
        "qqp": {"f1": 0.742, "accuracy": 0.905},
        "mnli": {"accuracy": 0.0, "accuracy_m": 0.913, "accuracy_mm": 0.910},
        "qnli": {"accuracy": 0.992},
        "rte": {"accuracy": 0.892},
        "wnli": {"accuracy": 0.918},
    }
    assert set(results) == set(GLUE_TASKS)
    assert round(glue_average(results), 1) == 89.4
    assert glue_average({**results, "ax": {"matthews": 0.502}}) == glue_average(results)


def test_one_number_a_task():
    assert task_score("squad2.0", {"f1": 80.0, "exact": 77.1, "best_f1": 99.0}) == pytest.approx(78.55)
    assert task_score("mnli", {"accuracy": 0.8}) == pytest.approx(80.0)
    assert task_score("sts-b", {"pearson": 0.9, "spearman": 0.8}) == pytest.approx(85.0)
