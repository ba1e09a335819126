"""Answers at their offsets, and not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.tasks.answers import answer_span, located
from data_prep.tasks.examples import QuestionExample
from data_prep.tasks.problems import Problems

CONTEXT = "It was  the\nlast one. The last one it was."


@pytest.mark.parametrize(
    ("answer", "start", "span"),
    [
        ("It was", 0, (0, 6)),
        ("was the last", 3, (3, 16)),
        (" the last", 6, (8, 16)),
        ("the last ", 7, (8, 16)),
        ("last\none", 12, (12, 20)),
        ("last", 11, (12, 16)),
        ("one.", 17, (17, 21)),
        ("was.", 38, (38, 42)),
        ("was", 2, (3, 6)),
        ("was", 0, None),
        ("was", 4, None),
        ("lastone", 12, None),
        ("It", -1, None),
        ("was.", 99, None),
        ("  ", 2, None),
        ("", 0, None),
    ],
)
def test_spans(answer, start, span):
    assert answer_span(CONTEXT, answer, start) == span


@given(st.text("ab .\n\u00a0", min_size=1), st.data())
def test_what_is_cut_from_a_context_is_found_again(context, data):
    begin = data.draw(st.integers(0, len(context)))
    end = data.draw(st.integers(begin, len(context)))
    answer = context[begin:end]
    span = answer_span(context, re.sub(r"\s+", " ", answer), begin)
    if answer.strip():
        assert span is not None
        assert context[slice(*span)] == answer.strip()
    else:
        assert span is None


def question(answers, starts):
    return QuestionExample("q1", "What?", CONTEXT, tuple(answers), tuple(starts))


def test_an_answer_that_stands_elsewhere_once_is_taken_from_there():
    problems = Problems()
    example = located(question(["The last"], [3]), "a.json", problems, is_training=True)
    assert example == question(["The last"], [22])
    assert problems.lines() == [
        "1 row: answer not at its offset, taken from the only place where it stands (a.json, question q1: "
        "'The last' at 3, where the context has 'was  the'; it stands at 22)"
    ]


@pytest.mark.parametrize(("answer", "places"), [("it were", "no places"), ("last one", "2 places")])
def test_an_answer_that_cannot_be_placed(answer, places):
    for is_training, outcome in ((True, "left out"), (False, "kept for evaluation")):
        problems = Problems()
        given_example = question([answer], [1])
        example = located(given_example, "a.json", problems, is_training=is_training)
        assert example == (None if is_training else given_example)
        [line] = problems.lines()
        assert line.startswith(f"1 row: answer not at its offset, {outcome} (")
        assert line.endswith(f"it stands at {places})")


def test_one_good_answer_is_enough_and_bad_ones_are_told_once():
    problems = Problems()
    example = located(
        question(["it were", "was", "it were"], [0, 3, 0]), "a.json", problems, is_training=True
    )
    assert example == question(["was"], [3])
    assert problems.counts.total() == 1
