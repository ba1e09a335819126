"""From a model's scores of windows to answers, cut out of the context by character offsets.

scores of a window --spans--> Answers --of all windows of a question--> n best --odds against no answer--> text
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from data_prep.tasks.examples import QuestionExample

_CANDIDATES = 5  # times n_best, of a window: texts that repeat go


class QuestionWindow(Protocol):
    """What is read of a window: T tokens of [CLS] question [SEP] a part of the context [SEP].

    Attributes:
      example_id: the question's.
      begins, ends: int (T,), the characters of the context that a token stands for, end excluded; -1 elsewhere.
      is_max_context: bool (T,), whether no other window shows the token with more context on both sides.
    """

    @property
    def example_id(self) -> str: ...
    @property
    def begins(self) -> Any: ...
    @property
    def ends(self) -> Any: ...
    @property
    def is_max_context(self) -> Any: ...


@dataclass(frozen=True)
class Answer:
    """One of a question's n best answers.

    Attributes:
      text: as it stands in the context, without white space around.
      answer_start: where, in characters.
      probability: among the n best.
      start_score, end_score: logits of the span head, log probabilities of the beam.
    """

    text: str
    answer_start: int
    probability: float
    start_score: float
    end_score: float


@dataclass(frozen=True)
class SquadPredictions:
    """What is predicted for each question's id.

    Attributes:
      n_best: answers, best first; one or more.
      null_odds: log odds that there is no answer; None of a model without answerability.
    """

    n_best: dict[str, list[Answer]]
    null_odds: dict[str, float] | None = None

    def texts(self, threshold: float | None = None) -> dict[str, str]:
        """The best answer of each question; "" where the null odds are above `threshold`, if one is given."""
        best = {id_: answers[0].text for id_, answers in self.n_best.items()}
        if threshold is None or self.null_odds is None:
            return best
        return {id_: "" if self.null_odds[id_] > threshold else text for id_, text in best.items()}

    def n_best_json(self) -> dict[str, list[dict[str, Any]]]:
        """The n best as nbest_predictions.json has them."""
        return {id_: [asdict(answer) for answer in answers] for id_, answers in self.n_best.items()}


class _Span(NamedTuple):
    begin: int
    end: int
    start_score: float
    end_score: float


def predict_answers(
    examples: Sequence[QuestionExample],
    windows: Sequence[QuestionWindow],
    scores: Sequence[Mapping[str, np.ndarray]],
    *,
    n_best: int = 20,
    max_answer_length: int = 30,
) -> SquadPredictions:
    """The answers that a model's scores of windows amount to.

    Args:
      examples: the questions.
      windows: one or more of each question, in any order.
      scores: what the model gives for each window. From the span head start_logits and end_logits (T,), or longer
        with padding. From the beam start_top_log_probs (K,), start_top_index (K,), end_top_log_probs (K * J,)
        and end_top_index (K * J,), J ends of each start one after the other, and answerable_logits (), positive
        where the window has an answer.
      n_best: how many answers to keep.
      max_answer_length: in tokens.

    Raises:
      ValueError: not one score a window, or a question without a window.
    """
    if len(windows) != len(scores):
        raise ValueError(f"One score a window. Received {len(windows)} windows and {len(scores)} scores.")
    of_question: dict[str, list[int]] = defaultdict(list)
    for i, window in enumerate(windows):
        of_question[window.example_id].append(i)
    answers, null_odds = {}, {}
    for example in examples:
        rows = of_question[example.id]
        if not rows:
            raise ValueError(f"Every question has a window. Received none of {example.id}.")
        spans = [
            span
            for i in rows
            for span in window_spans(windows[i], scores[i], _CANDIDATES * n_best, max_answer_length)
        ]
        answers[example.id] = best_answers(example.context, spans, n_best)
        if "answerable_logits" in scores[rows[0]]:
            # No answer is the answer only if no window has one.
            null_odds[example.id] = -max(float(scores[i]["answerable_logits"]) for i in rows)
    return SquadPredictions(answers, null_odds or None)


def window_spans(
    window: QuestionWindow, scores: Mapping[str, np.ndarray], count: int, max_answer_length: int
) -> list[_Span]:
    """The best `count` spans of a window that begin at a token with its most context."""
    begins, ends = np.asarray(window.begins), np.asarray(window.ends)
    can_end = begins >= 0
    can_start = can_end & np.asarray(window.is_max_context, bool)
    if "start_top_index" in scores:  # beside it, end_logits would be those of the right start, for the loss
        pairs = _pairs_of_beam(scores, can_start, can_end, max_answer_length)
    else:
        pairs = _pairs_of_logits(scores, can_start, can_end, count, max_answer_length)
    start, end, start_scores, end_scores = pairs
    best = np.argsort(-(start_scores + end_scores), kind="stable")[:count]
    columns = begins[start[best]], ends[end[best]], start_scores[best], end_scores[best]
    return [_Span(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _pairs_of_logits(
    scores: Mapping[str, np.ndarray],
    can_start: np.ndarray,
    can_end: np.ndarray,
    count: int,
    max_answer_length: int,
) -> tuple[np.ndarray, ...]:
    """The best `count` of all starts with all ends in reach; arrays (count,) or less."""
    T = len(can_start)
    starts = np.flatnonzero(can_start)
    start_logits = np.asarray(scores["start_logits"], np.float64)[:T]
    end_logits = np.where(can_end, np.asarray(scores["end_logits"], np.float64)[:T], -np.inf)
    padded = np.append(end_logits, np.full(max_answer_length, -np.inf))
    of_start = np.lib.stride_tricks.sliding_window_view(padded, max_answer_length)[starts]
    totals = (start_logits[starts, np.newaxis] + of_start).reshape(-1)
    best = np.arange(len(totals))
    if count < len(totals):
        best = np.argpartition(-totals, count)[:count]
    best = np.sort(best[totals[best] > -np.inf])
    start = starts[best // max_answer_length]
    end = start + best % max_answer_length
    return start, end, start_logits[start], end_logits[end]


def _pairs_of_beam(
    scores: Mapping[str, np.ndarray], can_start: np.ndarray, can_end: np.ndarray, max_answer_length: int
) -> tuple[np.ndarray, ...]:
    """Every start of the beam with its own ends, where that is a span of the context; arrays (K * J,) or less."""
    end = np.asarray(scores["end_top_index"]).reshape(-1)
    J = len(end) // len(scores["start_top_index"])
    start = np.repeat(np.asarray(scores["start_top_index"]), J)
    start_scores = np.repeat(np.asarray(scores["start_top_log_probs"], np.float64), J)
    end_scores = np.asarray(scores["end_top_log_probs"], np.float64).reshape(-1)
    T = len(can_start)
    inside = (start < T) & (end < T)  # a beam may end in padding
    keep = np.flatnonzero(inside & (start <= end) & (end < start + max_answer_length))
    keep = keep[can_start[start[keep]] & can_end[end[keep]]]
    return start[keep], end[keep], start_scores[keep], end_scores[keep]


def best_answers(context: str, spans: Sequence[_Span], n_best: int) -> list[Answer]:
    """The best spans with different texts and their probabilities; an empty text if there is no span."""
    found: dict[str, _Span] = {}
    for span in sorted(spans, key=lambda span: -(span.start_score + span.end_score)):
        text = context[span.begin : span.end].strip()
        if text and text not in found:
            found[text] = span
            if len(found) == n_best:
                break
    if not found:
        return [Answer("", 0, 1.0, 0.0, 0.0)]
    scores = np.array([span.start_score + span.end_score for span in found.values()])
    probabilities = np.exp(scores - scores.max())
    probabilities /= probabilities.sum()
    return [
        Answer(
            text, _without_space(context, span.begin), float(probability), span.start_score, span.end_score
        )
        for (text, span), probability in zip(found.items(), probabilities, strict=True)
    ]


def _without_space(context: str, begin: int) -> int:
    return begin + len(context[begin:]) - len(context[begin:].lstrip())
