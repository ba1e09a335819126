"""Metrics of predictions."""

import pytest

from albert_tf.evaluation.squad_predictions import Answer, SquadPredictions
from albert_tf.prediction.splits import EncodedSplit
from albert_tf.prediction.task_outputs import EVEN_ODDS, metrics_of, null_threshold_of
from data_prep.errors import InputError
from data_prep.tasks.examples import QuestionExample
from data_prep.tasks.task import find_task


def squad_metrics(task: str, *questions: QuestionExample) -> dict[str, float]:
    """The metrics if every question is answered with "c", with null odds from 1 upwards."""
    n_best = {question.id: [Answer("c", 0, 1.0, 0.0, 0.0)] for question in questions}
    null_odds = {question.id: float(i) for i, question in enumerate(questions, start=1)}
    split = EncodedSplit("dev", questions, [])
    answerable = find_task(task).answerable
    predictions = SquadPredictions(n_best, null_odds if answerable else None)
    return metrics_of(find_task(task), [split], [predictions])


def test_questions_that_all_have_no_answer_can_be_scored():
    metrics = squad_metrics("squad2.0", QuestionExample("1", "q", "c", is_impossible=True))
    assert metrics["best_f1"] == metrics["NoAns_f1"] == 100.0


def test_the_threshold_that_never_answers_is_kept_if_it_is_the_best():
    """The official script's is 0 then, which would answer the questions with lower null odds."""
    unanswerable = [QuestionExample(str(i), "q", "c", is_impossible=True) for i in range(2)]
    metrics = squad_metrics("squad2.0", QuestionExample("2", "q", "b c", ("b",), (0,)), *unanswerable)
    assert metrics["best_f1_thresh"] == 0.0
    assert null_threshold_of({"dev": metrics}) < 1.0  # the least null odds


@pytest.mark.parametrize(
    ("dev", "expected"),
    [({"threshold": -1.5, "best_f1_thresh": 0.0}, -1.5), ({"best_f1_thresh": 2}, 2), ({}, EVEN_ODDS)],
)
def test_the_threshold_of_results(dev, expected):
    assert null_threshold_of({"dev": dev}) == expected


def test_a_threshold_that_is_not_a_number():
    with pytest.raises(InputError, match="`threshold` in results.json must be a number. Received '1'"):
        null_threshold_of({"dev": {"threshold": "1"}})


def test_questions_whose_answers_are_unknown_have_no_metrics():
    for task in ("squad1.1", "squad2.0"):
        assert squad_metrics(task, QuestionExample("1", "q", "c")) == {}


def test_own_questions_without_an_answer_count_as_in_squad2():
    """A model that always answers has them all wrong; `albert evaluate --predictions` says the same."""
    questions = QuestionExample("1", "q", "c", ("c",), (0,)), QuestionExample("2", "q", "c")
    assert squad_metrics("question-answering", *questions) == {
        "exact": 50.0, "f1": 50.0, "HasAns_exact": 100.0, "HasAns_f1": 100.0, "NoAns_exact": 0.0, "NoAns_f1": 0.0
    }  # fmt: skip
    assert squad_metrics("question-answering", questions[0]) == {"exact_match": 100.0, "f1": 100.0}
