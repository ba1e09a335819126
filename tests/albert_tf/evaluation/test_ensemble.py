"""The whole is the mean of its members."""

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from albert_tf.evaluation.ensemble import average, average_answers
from albert_tf.evaluation.probability_files import Probabilities
from albert_tf.evaluation.squad_predictions import Answer, SquadPredictions
from data_prep.errors import InputError


def probabilities(*rows, ids=("a", "b"), classes=("0", "1"), labels=("0", "1")):
    return Probabilities(ids, classes, tuple(map(np.array, rows)), labels)


def test_probabilities():
    whole = average(
        {
            "one": probabilities([0.9, 0.1], [0.6, 0.4]),
            "two": probabilities([0.2, 0.8], [0.6, 0.4]),
            "three": probabilities([0.8, 0.2], [0.0, 1.0]),
        }
    )
    np.testing.assert_allclose(whole.values, [[1.9 / 3, 1.1 / 3], [0.4, 0.6]])
    assert whole.predictions() == ["0", "1"]
    assert (whole.ids, whole.labels) == (("a", "b"), ("0", "1"))


def test_numbers_and_words():
    numbers = average(
        {name: probabilities(x, 2.0, classes=(), labels=None) for name, x in (("1", 1.0), ("2", 4.0))}
    )
    assert numbers.predictions() == [2.5, 2.0]
    words = [[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.3, 0.7]]
    whole = average({str(i): probabilities(rows, ids=("a",), labels=None) for i, rows in enumerate(words)})
    assert whole.predictions() == [["0", "1"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": ("a", "c")}, "the same ids. Received one and two"),
        ({"classes": ("1", "0")}, "the same classes"),
        ({"labels": ("0", "0")}, "the same labels"),
    ],
)
def test_members_belong_together(changes, message):
    rows = [0.9, 0.1], [0.6, 0.4]
    with pytest.raises(InputError, match=message):
        average({"one": probabilities(*rows), "two": probabilities(*rows, **changes)})


def test_members_have_the_same_words():
    with pytest.raises(InputError, match="the same words"):
        average(
            {
                "one": probabilities([[0.9, 0.1]], ids=("a",), labels=None),
                "two": probabilities([[0.9, 0.1], [0.5, 0.5]], ids=("a",), labels=None),
            }
        )


def answers(*texts_and_probabilities):
    return [Answer(text, 0, probability, 1.0, 2.0) for text, probability in texts_and_probabilities]


def test_answers():
    whole = average_answers(
        {
            "one": SquadPredictions({"q": answers(("Denver", 0.6), ("the Broncos", 0.4))}),
            "two": SquadPredictions({"q": answers(("Broncos", 0.7), ("the Broncos", 0.3))}),
            "three": SquadPredictions({"q": answers(("the Broncos", 0.55), ("Denver", 0.45))}),
        }
    )
    # n is 2, and a member that does not have an answer gives it 0.
    assert [answer.text for answer in whole.n_best["q"]] == ["the Broncos", "Denver"]
    assert [answer.probability for answer in whole.n_best["q"]] == pytest.approx([1.25 / 3, 1.05 / 3])
    assert whole.texts() == {"q": "the Broncos"}
    assert whole.null_odds is None


@hypothesis.given(st.lists(st.floats(-30, 30), min_size=1, max_size=4))
def test_null_odds_are_those_of_the_mean_probability(odds):
    members = {
        str(i): SquadPredictions({"q": answers(("x", 1.0))}, {"q": value}) for i, value in enumerate(odds)
    }
    received = (average_answers(members).null_odds or {})["q"]
    p = sum(1 / (1 + math.exp(-value)) for value in odds) / len(odds)
    assert 1 / (1 + math.exp(-received)) == pytest.approx(p, rel=1e-9)


def test_huge_null_odds_stay_finite():
    members = {
        str(i): SquadPredictions({"q": answers(("x", 1.0))}, {"q": value})
        for i, value in enumerate((2e4, 1e4))
    }
    assert (average_answers(members).null_odds or {})["q"] == pytest.approx(1e4 + math.log(2))


def test_members_answer_the_same_questions():
    one = SquadPredictions({"q": answers(("x", 1.0)), "r": answers(("x", 1.0))})
    with pytest.raises(InputError, match="one with 2 and two with 1, of which 1 are the same"):
        average_answers({"one": one, "two": SquadPredictions({"q": answers(("x", 1.0))})})
    with pytest.raises(InputError, match="null odds, or none"):
        average_answers({"one": one, "two": SquadPredictions(one.n_best, {"q": 0.0, "r": 0.0})})
