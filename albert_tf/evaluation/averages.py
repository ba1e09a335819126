"""One number for several tasks, as the paper and GLUE's leaderboard compute it; in percent."""

from collections.abc import Mapping

# The paper's Tables 1 to 8; "the two numbers of F1 and EM for each SQuAD are first averaged".
PAPER_TASKS = ("squad1.1", "squad2.0", "mnli", "sst-2", "race")
GLUE_TASKS = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli")
# A task's numbers; one of several numbers counts as their mean.
_NUMBERS = {
    "squad1.1": ("f1", "exact_match"),
    "squad2.0": ("f1", "exact"),
    "cola": ("matthews",),
    "mrpc": ("f1", "accuracy"),
    "sts-b": ("pearson", "spearman"),
    "qqp": ("f1", "accuracy"),
}


def task_score(task_name: str, metrics: Mapping[str, float]) -> float:
    """A task's one number in percent, of what `task_metrics` or `evaluate_squad1` and `2` give.

    MNLI's is the mean over matched and mismatched where both are given.

    >>> task_score("squad1.1", {"exact_match": 82.3, "f1": 89.3})
    85.8
    >>> task_score("sst-2", {"accuracy": 0.903})
    90.3
    """
    names = _NUMBERS.get(task_name, ("accuracy",))
    if task_name == "mnli" and "accuracy_m" in metrics and "accuracy_mm" in metrics:
        names = ("accuracy_m", "accuracy_mm")
    mean = sum(metrics[name] for name in names) / len(names)
    return mean if task_name.startswith("squad") else 100.0 * mean


def paper_average(results: Mapping[str, Mapping[str, float]]) -> float:
    """The column Avg of the paper's tables.

    Args:
      results: the metrics of each of PAPER_TASKS.
    """
    return sum(task_score(name, results[name]) for name in PAPER_TASKS) / len(PAPER_TASKS)


def glue_average(results: Mapping[str, Mapping[str, float]]) -> float:
    """GLUE's score, as in the column Avg of the paper's Table 9; the diagnostic set is no part of it.

    Args:
      results: the metrics of each of GLUE_TASKS.
    """
    return sum(task_score(name, results[name]) for name in GLUE_TASKS) / len(GLUE_TASKS)
