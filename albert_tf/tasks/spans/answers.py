"""A model's scores of windows as answers, cut out of the context by character offsets.

a window's scores --window_spans--> spans --best_answers, over a question's windows--> n best answers --> text
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from albert_tf.tasks.spans.rows import QuestionExample
from data_prep.errors import InputError
from data_prep.files import Number

EVEN_ODDS = 0.0  # log odds above which there is no answer, unless a dev set gives a threshold
_CANDIDATES = 5  # spans of a window, times n_best: repeated texts are dropped later


class QuestionWindow(Protocol):
    """A window of T tokens: [CLS] question [SEP] part of the context [SEP].

    Attributes:
      example_id: the question's id.
      begins, ends: int (T,), the characters of the context that a token covers, end excluded; -1 elsewhere.
      is_max_context: bool (T,), whether no other window has more context on both sides of the token.
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
      text: as in the context, without surrounding white space.
      answer_start: its first character in the context.
      probability: among the n best.
      start_score, end_score: logits of the span head, or log probabilities of the beam.
    """

    text: str
    answer_start: int
    probability: Number
    start_score: Number
    end_score: Number


@dataclass(frozen=True)
class SquadPredictions:
    """The predictions for each question's id.

    Attributes:
      n_best: at least one answer, best first.
      null_odds: log odds that there is no answer; None for a model without answerability.
    """

    n_best: dict[str, list[Answer]]
    null_odds: dict[str, float] | None = None

    def texts(self, threshold: float | None = None) -> dict[str, str]:
        """The best answer to each question; "" if its null odds are above `threshold`."""
        best = {id_: answers[0].text for id_, answers in self.n_best.items()}
        if threshold is None or self.null_odds is None:
            return best
        return {id_: "" if self.null_odds[id_] > threshold else text for id_, text in best.items()}

    def n_best_json(self) -> dict[str, list[dict[str, Any]]]:
        """The n best answers as the content of nbest_predictions.json."""
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
    """The answers that follow from a model's scores of windows.

    Args:
      examples: the questions.
      windows: at least one for each question, in any order.
      scores: the model's outputs for each window. The span head gives start_logits and end_logits (T,), longer if
        padded. The beam gives start_top_log_probs (K,), start_top_index (K,), end_top_log_probs (K * J,) and
        end_top_index (K * J,), the J ends of each start in a row, and answerable_logits (), positive if the window
        has an answer.
      n_best: how many answers to keep.
      max_answer_length: in tokens.

    Raises:
      ValueError: the number of scores is not that of the windows, a question has no window, or two have one id.
    """
    if len(windows) != len(scores):
        raise ValueError(
            f"Every window must have a score. Received {len(windows)} windows and {len(scores)} scores."
        )
    if len({example.id for example in examples}) < len(examples):
        raise ValueError("Every question must have its own id. Received one id twice.")
    of_question: dict[str, list[int]] = defaultdict(list)
    for i, window in enumerate(windows):
        of_question[window.example_id].append(i)
    answers, null_odds = {}, {}
    for example in examples:
        rows = of_question[example.id]
        if not rows:
            raise ValueError(f"Every question must have a window. Received none for {example.id}.")
        spans = [
            span
            for i in rows
            for span in window_spans(windows[i], scores[i], _CANDIDATES * n_best, max_answer_length)
        ]
        answers[example.id] = best_answers(example.context, spans, n_best)
        if "answerable_logits" in scores[rows[0]]:
            # There is no answer only if no window has one.
            null_odds[example.id] = -max(float(scores[i]["answerable_logits"]) for i in rows)
    return SquadPredictions(answers, null_odds or None)


def window_spans(
    window: QuestionWindow, scores: Mapping[str, np.ndarray], count: int, max_answer_length: int
) -> list[_Span]:
    """The best `count` spans of a window that begin at a token with maximum context."""
    begins, ends = np.asarray(window.begins), np.asarray(window.ends)
    can_end = begins >= 0
    can_start = can_end & np.asarray(window.is_max_context, bool)
    if "start_top_index" in scores:  # end_logits are then those of the gold start, for the loss
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
    """The best `count` of all pairs of a start and an end within reach; arrays (count,) or shorter."""
    T = len(can_start)
    max_answer_length = min(max_answer_length, T)
    starts = np.flatnonzero(can_start)
    start_logits = np.asarray(scores["start_logits"], np.float64)[:T]
    end_logits = np.where(can_end, np.asarray(scores["end_logits"], np.float64)[:T], -np.inf)
    padded = np.append(end_logits, np.full(max_answer_length, -np.inf))
    reachable = np.lib.stride_tricks.sliding_window_view(padded, max_answer_length)[starts]
    totals = (start_logits[starts, np.newaxis] + reachable).reshape(-1)
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
    """Every start of the beam with its own ends if that is a span of the context; arrays (K * J,) or shorter."""
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
    """The best spans with distinct texts, and their probabilities; an empty text if there is no span."""
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


def average_answers(members: Mapping[str, SquadPredictions]) -> SquadPredictions:
    """The mean of each answer's probability over the members; 0 for a member without it among its n best.

    The null odds are those of the members' mean probability of no answer.

    Args:
      members: name -> predictions for the same questions.

    Raises:
      InputError: their questions differ, or only some have null odds.
    """
    (first_name, first), *others = members.items()
    for name, member in others:
        if member.n_best.keys() != first.n_best.keys():
            raise InputError(
                f"Members of an ensemble must answer the same questions. {first_name} answers "
                f"{len(first.n_best):,} and {name} {len(member.n_best):,}, of which "
                f"{len(first.n_best.keys() & member.n_best.keys()):,} are the same."
            )
        if (member.null_odds is None) != (first.null_odds is None):
            raise InputError(
                "All members of an ensemble must have null odds, or none. Only one of "
                f"{first_name} and {name} has them."
            )
    predictions = list(members.values())
    n_best = {id_: _merged([member.n_best[id_] for member in predictions]) for id_ in first.n_best}
    if first.null_odds is None:
        return SquadPredictions(n_best)
    odds = {
        id_: _mean_odds([(member.null_odds or {})[id_] for member in predictions]) for id_ in first.n_best
    }
    return SquadPredictions(n_best, odds)


def _merged(members: Sequence[Sequence[Answer]]) -> list[Answer]:
    """The n best of all members' answers to one question, n being the length of the longest list."""
    same: dict[str, list[Answer]] = {}
    for answers in members:
        for answer in answers:
            same.setdefault(answer.text, []).append(answer)
    merged = [
        Answer(
            text,
            found[0].answer_start,
            sum(answer.probability for answer in found) / len(members),
            sum(answer.start_score for answer in found) / len(found),
            sum(answer.end_score for answer in found) / len(found),
        )
        for text, found in same.items()
    ]
    return sorted(merged, key=lambda answer: -answer.probability)[: max(map(len, members))]


def _mean_odds(odds: Sequence[float]) -> float:
    """log(p / (1 - p)) for the mean p of the probabilities with the given log odds; stable for large odds."""
    odds_ = np.asarray(odds, np.float64)
    log_p, log_not_p = -np.logaddexp(0, -odds_), -np.logaddexp(0, odds_)
    return float(np.logaddexp.reduce(log_p) - np.logaddexp.reduce(log_not_p))


def null_threshold_of(results: Mapping[str, Any]) -> float:
    """The null odds above which a model of SQuAD 2.0 finds no answer: the best on the dev set of its run.

    Args:
      results: of the run, as in its results.json.

    Raises:
      InputError: the threshold is not a number.
    """
    dev = results.get("dev", {})
    threshold = dev.get("threshold", dev.get("best_f1_thresh", EVEN_ODDS))
    if not isinstance(threshold, int | float):
        raise InputError(f"`threshold` in results.json must be a number. Received {threshold!r}.")
    return threshold
