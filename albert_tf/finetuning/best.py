"""Which evaluation of a run was the best: from its metrics.jsonl alone, so that a resumed run judges alike."""

from collections.abc import Sequence


def best_evaluation(lines: Sequence[dict], metric: str) -> dict | None:
    """The line of the best evaluation, the first of equals; None if there was none.

    Args:
      lines: of metrics.jsonl.
      metric: the name of what is compared, larger being better; NaN is worse than every number.
    """
    evaluations = [line for line in lines if metric in line]
    return max(evaluations, key=lambda line: _rank(line[metric])) if evaluations else None


def evaluations_since_best(lines: Sequence[dict], metric: str) -> int:
    """How many evaluations came after the best one."""
    best = best_evaluation(lines, metric)
    return sum(metric in line and line["step"] > best["step"] for line in lines) if best else 0


def _rank(value: float) -> float:
    return value if value == value else float("-inf")
