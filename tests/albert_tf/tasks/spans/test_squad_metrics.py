"""SQuAD's metrics equal the official algorithm's."""

import math

import hypothesis
import pytest
from hypothesis import strategies as st

from albert_tf.tasks.spans.metrics import (
    choose_threshold,
    evaluate_squad1,
    evaluate_squad2,
    f1,
    normalize_answer,
)
from albert_tf.tasks.spans.squad_json import gold_answers
from data_prep.errors import InputError
from tests.reference import squad

WORDS = [
    "the", "The", "a", "an", "Army", "army's", "U.S.", ",", "—", "2,000", "über", "", " ", "a_b", "an-a", "中文",
    "\t",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join) | st.text(max_size=8)


@st.composite
def evaluations(draw, min_answers):
    ids = [f"q{i}" for i in range(draw(st.integers(1, 12)))]
    answers = {id_: tuple(draw(st.lists(TEXTS, min_size=min_answers, max_size=3))) for id_ in ids}
    predictions = {id_: draw(TEXTS | st.sampled_from(answers[id_] or ("",))) for id_ in ids}
    # Steps of a half, so that equal odds occur.
    null_odds = {id_: draw(st.integers(-6, 6)) / 2 for id_ in ids}
    return answers, predictions, null_odds


@pytest.mark.slow
@hypothesis.given(evaluations(min_answers=1))
def test_squad1_equals_the_official_algorithm(case):
    answers, predictions, _ = case
    assert evaluate_squad1(answers, predictions) == pytest.approx(
        squad.version_1(answers, predictions), abs=1e-9
    )


@pytest.mark.slow
@hypothesis.given(evaluations(min_answers=0), st.sampled_from([1.0, 0.0, -2.5]), st.booleans())
def test_squad2_equals_the_official_algorithm(case, threshold, with_odds):
    answers, predictions, null_odds = case
    odds = null_odds if with_odds else None
    received = evaluate_squad2(answers, predictions, odds, na_prob_thresh=threshold)
    assert received == pytest.approx(squad.version_2(answers, predictions, odds, threshold), abs=1e-9)


def test_the_official_names():
    answers = {"1": ("Denver",), "2": ()}
    received = evaluate_squad2(answers, {"1": "Denver Broncos", "2": ""}, {"1": -3.0, "2": 2.0})
    assert received == {
        "exact": 50.0,
        "f1": pytest.approx(100 * (2 / 3 + 1) / 2),
        "total": 2,
        "HasAns_exact": 0.0,
        "HasAns_f1": pytest.approx(200 / 3),
        "HasAns_total": 1,
        "NoAns_exact": 100.0,
        "NoAns_f1": 100.0,
        "NoAns_total": 1,
        "best_exact": 50.0,
        "best_exact_thresh": 0.0,
        "best_f1": pytest.approx(100 * (2 / 3 + 1) / 2),
        "best_f1_thresh": -3.0,
    }
    assert evaluate_squad1({"1": ("Denver",)}, {"1": "the denver."}) == {"exact_match": 100.0, "f1": 100.0}


def test_thresholds():
    """By default 1, as in the official script; infinity leaves predictions as they are."""
    answers = {"1": ("Denver",)}
    for odds, exact in ((0.9, 100.0), (1.1, 0.0)):
        assert evaluate_squad2(answers, {"1": "Denver"}, {"1": odds})["exact"] == exact
    assert evaluate_squad2(answers, {"1": "Denver"}, {"1": 7.0}, na_prob_thresh=math.inf)["exact"] == 100.0


@pytest.mark.slow
@hypothesis.given(evaluations(min_answers=0), st.randoms(use_true_random=False))
def test_the_chosen_threshold_gives_the_best_f1(case, random):
    answers, predictions, _ = case
    order = random.sample(range(-6, 6), len(answers))  # questions with equal odds cannot be separated
    null_odds = dict(zip(answers, map(float, order), strict=True))
    threshold = choose_threshold(answers, predictions, null_odds)
    result = evaluate_squad2(answers, predictions, null_odds, na_prob_thresh=threshold)
    silence = 100 * sum(not accepted for accepted in answers.values()) / len(answers)
    assert result["f1"] >= max(result["best_f1"], silence) - 1e-9


def test_the_chosen_threshold_if_a_few_answers_are_right():
    """Answering is better than silence, by half a percent of the questions."""
    answers = {f"q{i}": () if i else ("Denver",) for i in range(200)}
    null_odds = {id_: float(i) for i, id_ in enumerate(answers)}
    predictions = dict.fromkeys(answers, "Denver")
    assert choose_threshold(answers, predictions, null_odds) == 0.0


def test_normalization():
    assert normalize_answer("The  U.S. Army's\ta-b (an) x") == "us armys ab x"
    assert normalize_answer("a_the the_a") == "athe thea"
    assert f1("", "") == 0.0


def test_gold_answers():
    question = {"id": "1", "question": "?", "answers": [{"text": "x", "answer_start": 0}]}
    data = {"data": [{"paragraphs": [{"context": "x", "qas": [question, {"id": "2", "answers": []}]}]}]}
    assert gold_answers(data) == {"1": ("x",), "2": ()}
    data["data"][0]["paragraphs"][0]["qas"].append(question)
    with pytest.raises(InputError, match="dev.json with 3 questions and 2 ids"):
        gold_answers(data, "dev.json")


@pytest.mark.parametrize(
    "data", [[], {}, {"data": [{"paragraphs": [{"qas": [{"id": "1"}]}]}]}, {"data": []}, None, 3]
)
def test_gold_of_another_form(data):
    with pytest.raises(InputError, match="dev.json"):
        gold_answers(data, "dev.json")


def test_what_gold_answers_lack_is_named():
    with pytest.raises(InputError, match="Received dev.json without 'paragraphs'"):
        gold_answers({"data": [{}]}, "dev.json")
    with pytest.raises(InputError, match="Received dev.json, which is not"):
        gold_answers({"data": [1]}, "dev.json")
    with pytest.raises(InputError, match="dev.json has rows with id, context"):
        gold_answers({"data": [{"id": "1", "context": "x"}]}, "dev.json")


def test_ids_must_be_those_of_the_gold_file():
    answers = {"1": ("x",), "2": ("y",)}
    with pytest.raises(InputError, match="1 missing, first 2; 2 not in the gold file, first 3"):
        evaluate_squad1(answers, {"1": "x", "3": "z", "4": "z"})
    with pytest.raises(InputError, match="needs null odds.*1 missing, first 2"):
        evaluate_squad2(answers, {"1": "x", "2": "y"}, {"1": 0.0})
    with pytest.raises(InputError, match="Received 2 without one, first 1; is it SQuAD 2.0?"):
        evaluate_squad1({"1": (), "2": ()}, {"1": "", "2": ""})
