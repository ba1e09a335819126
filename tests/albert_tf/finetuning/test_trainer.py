"""The choice of the best evaluation, and how many evaluations follow it."""

import math

from albert_tf.finetuning.trainer import best_evaluation, evaluations_since_best


def lines(*values: float) -> list[dict]:
    training = [{"step": 1, "loss": 9.0}]
    return training + [{"step": step, "eval_f1": value} for step, value in enumerate(values, start=2)]


def test_the_first_of_equals_is_the_best():
    best = best_evaluation(lines(0.1, 0.5, 0.2, 0.5), "eval_f1")
    assert best == {"step": 3, "eval_f1": 0.5}
    assert evaluations_since_best(lines(0.1, 0.5, 0.2, 0.5), "eval_f1") == 2


def test_not_a_number_is_worse_than_every_number():
    assert best_evaluation(lines(math.nan, -0.5, math.nan), "eval_f1") == {"step": 3, "eval_f1": -0.5}


def test_without_evaluations():
    assert best_evaluation(lines(), "eval_f1") is None
    assert evaluations_since_best(lines(), "eval_f1") == 0
