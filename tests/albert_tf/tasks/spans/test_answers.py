"""Answers are the best spans of all windows, cut from the context."""

from dataclasses import dataclass, field

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from albert_tf.tasks.spans.answers import Answer, predict_answers, window_spans
from albert_tf.tasks.spans.rows import QuestionExample

CONTEXT = "Denver  won in 2015; Denver, again."
WORDS = [(0, 6), (8, 11), (12, 14), (15, 19), (19, 20), (21, 27), (27, 28), (29, 35)]


@dataclass
class Window:
    """[CLS] what [SEP] then tokens `first` to `last` of the context [SEP]."""

    first: int
    last: int
    own: tuple[int, int]  # the tokens that have their most context here
    example_id: str = "q"
    begins: np.ndarray = field(init=False)
    ends: np.ndarray = field(init=False)
    is_max_context: np.ndarray = field(init=False)

    def __post_init__(self):
        words = WORDS[self.first : self.last]
        self.begins = np.array([-1, -1, -1, *(word[0] for word in words), -1])
        self.ends = np.array([-1, -1, -1, *(word[1] for word in words), -1])
        own = [self.own[0] <= i < self.own[1] for i in range(self.first, self.last)]
        self.is_max_context = np.array([False, False, False, *own, False])


WINDOWS = [Window(0, 5, own=(0, 4)), Window(2, 8, own=(4, 8))]
EXAMPLE = QuestionExample("q", "what", CONTEXT)


def logits(seed: int, T: int, padding: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=T + padding).astype(np.float32) for name in ("start_logits", "end_logits")}


@hypothesis.given(st.integers(0, 10**6), st.integers(0, 4), st.integers(1, 4), st.integers(1, 9))
def test_the_best_of_all_spans(seed, padding, max_answer_length, n_best):
    scores = [logits(seed + i, len(window.begins), padding) for i, window in enumerate(WINDOWS)]
    found = {}
    for window, score in zip(WINDOWS, scores, strict=True):
        for start in range(window.own[0], window.own[1]):
            for end in range(start, min(start + max_answer_length, window.last)):
                i, j = start - window.first + 3, end - window.first + 3
                total = float(score["start_logits"][i]) + float(score["end_logits"][j])
                text = CONTEXT[WORDS[start][0] : WORDS[end][1]]
                found[text] = max(total, found.get(text, -np.inf))
    best = sorted(found.items(), key=lambda item: -item[1])[:n_best]
    predictions = predict_answers(
        [EXAMPLE], WINDOWS, scores, n_best=n_best, max_answer_length=max_answer_length
    )
    received = predictions.n_best["q"]
    assert [answer.text for answer in received] == [text for text, _ in best]
    totals = np.array([total for _, total in best])
    probabilities = np.exp(totals) / np.exp(totals).sum()
    np.testing.assert_allclose([answer.probability for answer in received], probabilities, rtol=1e-6)
    np.testing.assert_allclose([a.start_score + a.end_score for a in received], totals, rtol=1e-6)
    for answer in received:
        assert CONTEXT[answer.answer_start :].startswith(answer.text)
    assert predictions.texts() == {"q": best[0][0]}
    assert predictions.null_odds is None


def beam(starts, start_scores, ends, end_scores, answerable) -> dict[str, np.ndarray]:
    return {
        "start_top_index": np.array(starts),
        "start_top_log_probs": np.array(start_scores, np.float32),
        "end_top_index": np.array(ends),
        "end_top_log_probs": np.array(end_scores, np.float32),
        "answerable_logits": np.float32(answerable),
    }


def test_the_beam():
    scores = [
        # The question, a word that has more context elsewhere, an end before its start; then "won in", "won".
        beam([1, 7, 4], [-0.1, -0.2, -0.5], [5, 5, 7, 8, 5, 4], [-0.1, -0.1, -0.1, -0.1, -1, -2], -2.0),
        # An end in the padding; "again".
        beam([8, 8, 0], [-3, -3, -9], [50, 8, 9, 60, 0, 0], [-0.1, -1, -1, -0.1, 0, 0], 1.5),
    ]
    predictions = predict_answers([EXAMPLE], WINDOWS, scores)
    answers = predictions.n_best["q"]
    assert [answer.text for answer in answers] == ["won in", "won", "again."]
    assert (answers[0].start_score, answers[0].end_score) == (-0.5, -1.0)
    assert predictions.null_odds == {"q": -1.5}
    assert predictions.texts(threshold=0.0) == {"q": "won in"}
    assert predictions.texts(threshold=-1.5) == {"q": "won in"}
    assert predictions.texts(threshold=-2.0) == {"q": ""}
    beside = [
        {**score, **logits(i, 9, 0)} for i, score in enumerate(scores)
    ]  # given the right starts, for the loss
    assert predict_answers([EXAMPLE], WINDOWS, beside) == predictions


def test_json():
    scores = [logits(i, len(window.begins), 0) for i, window in enumerate(WINDOWS)]
    (answer,) = predict_answers([EXAMPLE], WINDOWS, scores, n_best=1).n_best_json()["q"]
    assert set(answer) == {"text", "answer_start", "probability", "start_score", "end_score"}
    assert answer["probability"] == 1.0


def test_white_space_around_a_token_is_not_part_of_the_answer():
    window = Window(0, 2, own=(0, 2))
    window.begins, window.ends = np.array([-1, -1, -1, 0, 6, -1]), np.array([-1, -1, -1, 6, 11, -1])
    (answer,) = predict_answers(
        [EXAMPLE],
        [window],
        [{"start_logits": np.array([0, 0, 0, 0, 9, 0.0]), "end_logits": np.array([0, 0, 0, 0, 9, 0.0])}],
        n_best=1,
    ).n_best["q"]
    assert (answer.text, answer.answer_start) == ("won", 8)


def test_a_context_without_tokens_has_the_empty_answer():
    window = Window(0, 0, own=(0, 0))
    scores = {"start_logits": np.zeros(4), "end_logits": np.zeros(4)}
    (answer,) = predict_answers([EXAMPLE], [window], [scores]).n_best["q"]
    assert answer == Answer("", 0, 1.0, 0.0, 0.0)


def test_twenty_answers_are_kept():
    scores = [logits(i, len(window.begins), 0) for i, window in enumerate(WINDOWS)]
    assert len(predict_answers([EXAMPLE], WINDOWS, scores).n_best["q"]) == 20


def test_as_many_spans_as_candidates():
    """A context of one token, and answers of at most 30: as many pairs as the candidates of some `n_best`."""
    window = Window(0, 1, own=(0, 1))
    scores = {"start_logits": np.zeros(5), "end_logits": np.zeros(5)}
    for count in range(1, 40):
        (span,) = window_spans(window, scores, count, max_answer_length=4)
        assert (span.begin, span.end) == (0, 6)


def test_a_beam_with_more_ends_than_starts():
    scores = beam([3, 5], [-0.1, -0.9], [3, 4, 5, 5, 6, 7], [-0.1, -0.2, -0.3, -0.4, -0.5, -0.6], 1.0)
    answers = predict_answers([EXAMPLE], WINDOWS[:1], [scores]).n_best["q"]
    assert [(answer.text, round(answer.start_score + answer.end_score, 3)) for answer in answers] == [
        ("Denver", -0.2),
        ("Denver  won", -0.3),
        ("Denver  won in", -0.4),
        ("in", -1.3),
        ("in 2015", -1.4),
        ("in 2015;", -1.5),
    ]


def test_every_question_needs_windows_and_every_window_scores():
    with pytest.raises(ValueError, match="Received none for q"):
        predict_answers([EXAMPLE], [], [])
    with pytest.raises(ValueError, match="Received 2 windows and 0 scores"):
        predict_answers([EXAMPLE], WINDOWS, [])
    with pytest.raises(ValueError, match="Every question must have its own id"):
        predict_answers([EXAMPLE, EXAMPLE], [], [])
