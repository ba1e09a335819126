"""SQuAD's official metrics, 1.1 and 2.0, under the official scripts' names; in percent.

Where the official scripts pass over a question without a prediction, with a line of text, this is an InputError.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.evaluation.squad_text import exact, f1, normalize_answer
from data_prep.errors import InputError

NA_PROB_THRESH = 1.0  # the official script's default


def gold_answers(data: Any, source: str = "the gold file") -> dict[str, tuple[str, ...]]:
    """The accepted answers of every question of a SQuAD JSON file; none where there is no answer.

    Args:
      data: what the file holds, {"data": [{"paragraphs": [{"qas": [{"id", "answers": [{"text"}]}]}]}]}.
      source: the file's name, for messages.

    Raises:
      InputError: it has another shape, an id twice, or no question.
    """
    try:
        questions = [
            (question["id"], tuple(answer["text"] for answer in question["answers"]))
            for article in data["data"]
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]
        answers = dict(questions)
    except (TypeError, KeyError) as error:
        missing = f" without {error}" if isinstance(error, KeyError) else ""
        raise InputError(
            'SQuAD\'s gold answers are JSON: {"data": [{"paragraphs": [{"qas": [{"id", "answers"}]}]}]}. '
            f"Received {source}{missing or ', which is not'}."
        ) from None
    if not answers or len(answers) < len(questions):
        raise InputError(
            f"A gold file has questions, each with an id of its own. Received {source} with {len(questions):,} "
            f"questions and {len(answers):,} ids."
        )
    return answers


def evaluate_squad1(answers: Mapping[str, Sequence[str]], predictions: Mapping[str, str]) -> dict[str, float]:
    """Exact match and F1 of SQuAD 1.1, each against the best of a question's answers.

    Args:
      answers: accepted answers of each id, at least one; `gold_answers` reads them.
      predictions: a text for each id.

    Returns:
      "exact_match" and "f1", in percent.

    Raises:
      InputError: ids are missing or not known, or a question has no answer.
    """
    check_ids(answers, predictions, "prediction")
    impossible = [id_ for id_, accepted in answers.items() if not accepted]
    if impossible:
        raise InputError(
            "Every question of SQuAD 1.1 has an answer. Received "
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
      answers: accepted answers of each id, none if it has no answer.
      predictions: a text for each id, "" for no answer.
      null_odds: how strongly a model says that there is no answer, on any scale. Adds what the best threshold on
        them would give: best_exact, best_exact_thresh, best_f1, best_f1_thresh.
      na_prob_thresh: predictions whose null odds are above it count as "", as in the official script. For
        predictions whose threshold was applied before, give infinity.

    Returns:
      exact, f1, total, HasAns_exact, HasAns_f1, HasAns_total and NoAns_...; exact and f1 in percent.

    Raises:
      InputError: ids are missing or not known.
    """
    check_ids(answers, predictions, "prediction")
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
    """The null odds above which it is best for F1 to answer nothing.

    That is `best_f1_thresh`; but where answering nothing at all is best the official script says 0, and this says
    less than all null odds.

    Args:
      answers: as in `evaluate_squad2`.
      predictions: the best text of each id, whatever the null odds.
      null_odds: of each id.
    """
    result = evaluate_squad2(answers, predictions, null_odds)
    if result["best_f1"] > 100.0 * sum(not accepted for accepted in answers.values()) / len(answers):
        return result["best_f1_thresh"]
    return min(null_odds.values()) - 1.0


def _scores2(prediction: str, accepted: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 of one question. To 2.0 a text of articles and punctuation alone is no answer."""
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
    """The best mean score, in percent, if questions with null odds up to a threshold keep their predictions."""
    score = best = float(sum(not accepted for accepted in answers.values()))  # all without an answer
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
            f"Every id of the gold file needs one {what}. Received {len(received):,} for {len(expected):,} ids: "
            f"{'; '.join(parts)}."
        )
