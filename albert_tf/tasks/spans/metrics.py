"""SQuAD's official metrics, 1.1 and 2.0, in percent, with the official scripts' names.

The official scripts print a line and skip a question without a prediction; here it is an InputError.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.tasks.kind import Task
from data_prep.errors import InputError

NA_PROB_THRESH = 1.0  # the official script's default
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation, English articles and extra white space.

    >>> normalize_answer("The  U.S. Army's")
    'us armys'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact(prediction: str, answer: str) -> float:
    """1.0 if both normalize to the same text, else 0.0."""
    return float(normalize_answer(prediction) == normalize_answer(answer))


def f1(prediction: str, answer: str) -> float:
    """Harmonic mean of precision and recall over normalized words, each counted as often as it occurs."""
    predicted, accepted = normalize_answer(prediction).split(), normalize_answer(answer).split()
    common = (Counter(predicted) & Counter(accepted)).total()
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(accepted)
    return 2 * precision * recall / (precision + recall)


def may_lack_answers(task: Task, answers: Mapping[str, Sequence[str]]) -> bool:
    """Whether SQuAD 2.0's metrics are a task's: always, or for own data with questions that have no answer."""
    return task.answerable or (task.is_own_data and not all(answers.values()))


def evaluate_squad1(answers: Mapping[str, Sequence[str]], predictions: Mapping[str, str]) -> dict[str, float]:
    """Exact match and F1 of SQuAD 1.1, each for the best-matching answer of a question.

    Args:
      answers: at least one accepted answer for each id, as from `gold_answers`.
      predictions: a text for each id.

    Returns:
      "exact_match" and "f1", in percent.

    Raises:
      InputError: ids are missing or unknown, or a question has no answer.
    """
    check_ids(answers, predictions, "a prediction")
    impossible = [id_ for id_, accepted in answers.items() if not accepted]
    if impossible:
        raise InputError(
            "Every question of SQuAD 1.1 must have an answer. Received "
            f"{len(impossible):,} without one, first {impossible[0]}; is it SQuAD 2.0?"
        )
    pairs = [(predictions[id_], accepted) for id_, accepted in answers.items()]
    return {
        "exact_match": 100.0
        * sum(max(exact(text, a) for a in accepted) for text, accepted in pairs)
        / len(pairs),
        "f1": 100.0 * sum(max(f1(text, a) for a in accepted) for text, accepted in pairs) / len(pairs),
    }


def evaluate_squad2(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    *,
    na_prob_thresh: float = NA_PROB_THRESH,
) -> dict[str, float]:
    """Exact match and F1 of SQuAD 2.0, over all, answerable and unanswerable questions.

    Args:
      answers: the accepted answers of each id; () if it has none.
      predictions: a text for each id, "" for no answer.
      null_odds: a model's belief that there is no answer, on any scale. Adds the scores at the best thresholds:
        best_exact, best_exact_thresh, best_f1, best_f1_thresh.
      na_prob_thresh: predictions with null odds above it count as "", as in the official script. Pass infinity for
        predictions to which a threshold has been applied.

    Returns:
      exact, f1, total, HasAns_exact, HasAns_f1, HasAns_total and NoAns_...; exact and f1 in percent.

    Raises:
      InputError: ids are missing or unknown.
    """
    check_ids(answers, predictions, "a prediction")
    if null_odds is not None:
        check_ids(answers, null_odds, "null odds")
    scores = {id_: _scores2(predictions[id_], accepted) for id_, accepted in answers.items()}
    thresholded = {
        id_: (float(not answers[id_]),) * 2 if null_odds and null_odds[id_] > na_prob_thresh else score
        for id_, score in scores.items()
    }
    result = _means(thresholded, "", list(answers))
    result |= _means(thresholded, "HasAns_", [id_ for id_, accepted in answers.items() if accepted])
    result |= _means(thresholded, "NoAns_", [id_ for id_, accepted in answers.items() if not accepted])
    if null_odds is not None:
        for place, name in enumerate(("exact", "f1")):
            best, threshold = _best_threshold(
                answers, predictions, {id_: score[place] for id_, score in scores.items()}, null_odds
            )
            result |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return result


def choose_threshold(
    answers: Mapping[str, Sequence[str]], predictions: Mapping[str, str], null_odds: Mapping[str, float]
) -> float:
    """The threshold on the null odds with the best F1.

    It equals `best_f1_thresh`, except that if never answering is best, it is less than all null odds, where the
    official script returns 0.

    Args:
      answers: as in `evaluate_squad2`.
      predictions: the best text for each id, regardless of the null odds.
      null_odds: for each id.
    """
    result = evaluate_squad2(answers, predictions, null_odds)
    if result["best_f1"] > 100.0 * sum(not accepted for accepted in answers.values()) / len(answers):
        return result["best_f1_thresh"]
    return min(null_odds.values()) - 1.0


def _scores2(prediction: str, accepted: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 of one question. In 2.0 a text of only articles and punctuation counts as no answer."""
    texts = [answer for answer in accepted if normalize_answer(answer)] or [""]
    exact_score = max(exact(prediction, text) for text in texts)
    if not normalize_answer(prediction) or texts == [""]:
        return exact_score, exact_score
    return exact_score, max(f1(prediction, text) for text in texts)


def _means(scores: Mapping[str, tuple[float, ...]], prefix: str, ids: list[str]) -> dict[str, float]:
    if not ids:
        return {}
    return {
        f"{prefix}exact": 100.0 * sum(scores[id_][0] for id_ in ids) / len(ids),
        f"{prefix}f1": 100.0 * sum(scores[id_][1] for id_ in ids) / len(ids),
        f"{prefix}total": len(ids),
    }


def _best_threshold(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    scores: Mapping[str, float],
    null_odds: Mapping[str, float],
) -> tuple[float, float]:
    """The best mean score, in percent, and its threshold, up to which questions keep their predictions."""
    score = best = float(sum(not accepted for accepted in answers.values()))  # never answering
    threshold = 0.0
    for id_ in sorted(null_odds, key=null_odds.__getitem__):
        score += scores[id_] if answers[id_] else -float(predictions[id_] != "")
        if score > best:
            best, threshold = score, null_odds[id_]
    return 100.0 * best / len(scores), threshold


def check_ids(expected: Mapping[str, Any], received: Mapping[str, Any], what: str) -> None:
    """Raises InputError unless `received` has exactly the expected ids."""
    missing = [id_ for id_ in expected if id_ not in received]
    extra = [id_ for id_ in received if id_ not in expected]
    if missing or extra:
        parts = [
            f"{len(ids):,} {word}, first {ids[0]}"
            for ids, word in ((missing, "missing"), (extra, "not in the gold file"))
            if ids
        ]
        raise InputError(
            f"Every id of the gold file needs {what}. Received {len(received):,} for {len(expected):,} ids: "
            f"{'; '.join(parts)}."
        )
