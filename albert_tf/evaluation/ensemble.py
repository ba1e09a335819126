"""Ensembles: the members' probabilities averaged, as for the paper's leaderboard rows (section 4.9)."""

from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.evaluation.probability_files import Probabilities
from albert_tf.evaluation.squad_predictions import Answer, SquadPredictions
from data_prep.errors import InputError


def average(members: Mapping[str, Probabilities]) -> Probabilities:
    """The mean of the members' probabilities, or of their numbers in regression.

    Args:
      members: name -> predictions, all of the same examples.

    Raises:
      InputError: they are of other examples, classes or labels.
    """
    (first_name, first), *others = members.items()
    for name, member in others:
        for what in ("classes", "ids", "labels"):
            if getattr(member, what) != getattr(first, what):
                raise InputError(
                    f"Members of an ensemble have the same {what}. Received {first_name} and {name}, whose {what} "
                    "differ; were they trained on the same task and files?"
                )
        shapes = [(a.shape, b.shape) for a, b in zip(first.values, member.values, strict=True)]
        if any(a != b for a, b in shapes):
            raise InputError(f"Members of an ensemble have the same words. Received {first_name} and {name}.")
    values = tuple(
        np.mean(values, axis=0)
        for values in zip(*(member.values for member in members.values()), strict=True)
    )
    return Probabilities(first.ids, first.classes, values, first.labels, first.groups)


def average_answers(members: Mapping[str, SquadPredictions]) -> SquadPredictions:
    """The mean of each answer's probability over the members, 0 where a member does not have it among its n best.

    The odds against an answer are those of the members' mean probability.

    Args:
      members: name -> predictions, all of the same questions.

    Raises:
      InputError: they are of other questions, or only some have null odds.
    """
    (first_name, first), *others = members.items()
    for name, member in others:
        if member.n_best.keys() != first.n_best.keys():
            raise InputError(
                f"Members of an ensemble answer the same questions. Received {first_name} with "
                f"{len(first.n_best):,} and {name} with {len(member.n_best):,}, of which "
                f"{len(first.n_best.keys() & member.n_best.keys()):,} are the same."
            )
        if (member.null_odds is None) != (first.null_odds is None):
            raise InputError(
                f"All members of an ensemble have null odds, or none. Received {first_name} and {name}."
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
    """The n best of all members' answers to one question, n being the longest list's length."""
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
    """log(p / (1 - p)) of the mean p of probabilities whose log odds are given; for large ones too."""
    odds_ = np.asarray(odds, np.float64)
    log_p, log_not_p = -np.logaddexp(0, -odds_), -np.logaddexp(0, odds_)
    return float(np.logaddexp.reduce(log_p) - np.logaddexp.reduce(log_not_p))
