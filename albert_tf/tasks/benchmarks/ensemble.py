"""Ensembles: the mean of the members' probabilities, as in the paper's leaderboard rows (section 4.9).

folders --read_probabilities, read_n_best--> members --average, average_answers--> ensemble --> metrics
models from elsewhere --predict--> members
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import Problems
from albert_tf.tasks.run_predictions import (
    Probabilities,
    keep_predictions,
    n_best_file,
    probabilities_file,
    read_n_best,
    read_probabilities,
)
from albert_tf.tasks.scores import accepted_answers
from albert_tf.tasks.spans.answers import Answer, SquadPredictions
from albert_tf.tasks.spans.metrics import (
    choose_threshold,
    evaluate_squad1,
    evaluate_squad2,
    may_lack_answers,
)
from albert_tf.tasks.task import Task
from albert_tf.tasks.texts.metrics import probabilities_metrics
from data_prep.errors import InputError
from data_prep.files import check_is_folder

# Returns the predictions of a model, named as `albert predict` takes it, for each split.
Predict = Callable[[str], Sequence[Probabilities | SquadPredictions]]


class _KeptFiles(NamedTuple):
    """The file in which a run keeps the predictions of a split, and its reader; both take folder and split."""

    path: Callable[[Path, str], Path]
    read: Callable[[Path, str], Probabilities | SquadPredictions]


_FILES = _KeptFiles(probabilities_file, lambda run, split: read_probabilities(probabilities_file(run, split)))
_QUESTION_FILES = _KeptFiles(n_best_file, read_n_best)


def report_runs(
    task: Task,
    runs: Sequence[str | Path],
    role: str = "dev",
    predict: Predict | None = None,
    *,
    gold: Path | None = None,
    columns: Columns | None = None,
    problems: Problems | None = None,
    threshold: float | None = None,
    output_dir: Path | None = None,
) -> dict[str, Any]:
    """The metrics of runs and of their ensemble.

    Args:
      task: the task they were trained on.
      runs: their folders; a folder of seed_0, seed_1, ... stands for all of these. Also other fine-tuned models,
        which `predict` takes.
      role: "dev", or "test" to write predictions.
      predict: returns the predictions of a model for each split, for members without any.
      gold: the file with the correct answers, required for the metrics of questions: SQuAD's, or own data.
      columns: the columns of own data in `gold`.
      problems: collects unusable rows of `gold`.
      threshold: for SQuAD 2.0, the null odds above which there is no answer. Default: the best for F1 according to
        `gold`, or 0.
      output_dir: where to write the ensemble's predictions, in the files of a run; None writes nothing.

    Returns:
      {"members": {folder: metrics}, "ensemble": metrics}; metrics are empty if the labels are unknown.

    Raises:
      InputError: there is no run, one lacks predictions, their examples differ, or `output_dir` is a file or a
        run; nothing is written then.
    """
    if output_dir is not None:
        check_is_folder("output_dir", output_dir)
        _check_is_no_run(output_dir, runs)
    splits = task.splits[role]
    if not splits:
        raise InputError(f"{task.name} has no {role} set. Name another one with --split.")
    is_question = task.kind == "question_answering"
    kept = _QUESTION_FILES if is_question else _FILES
    check_has_runs(runs)
    members: dict[str, Sequence[Any]] = {}
    for run in runs:
        members |= _members(run, splits, kept, predict)
    if is_question:
        first = {name: parts[0] for name, parts in members.items()}
        answers = accepted_answers(task, gold, problems or Problems(), columns) if gold else None
        return _question_report(task, first, splits[0], answers, threshold, output_dir)
    return _report(task, members, splits, output_dir)


def check_has_runs(runs: Sequence[str | Path]) -> None:
    """Raises InputError if there are no runs."""
    if not runs:
        raise InputError("Name the folder of at least one run. Received none.")


def _check_is_no_run(output_dir: Path, runs: Sequence[str | Path]) -> None:
    """Raises InputError if a folder holds seeds, or is a run: the ensemble's predictions would replace theirs."""
    is_run = output_dir.resolve() in [Path(run).resolve() for run in runs]
    if is_run or any(output_dir.glob("seed_*")):
        raise InputError(
            "--output_dir must not be the folder of a run, whose predictions the ensemble's would replace. "
            f"Received {output_dir}; name another one."
        )


def _members(
    run: str | Path, splits: Sequence[str], kept: _KeptFiles, predict: Predict | None
) -> dict[str, Sequence[Any]]:
    """The predictions of a run, or of its seeds: those that it keeps, otherwise those that `predict` returns."""
    folder = Path(run)
    seeds = sorted(folder.glob("seed_*"), key=lambda path: (len(path.name), path.name))
    folders = [folder] if kept.path(folder, splits[0]).exists() else seeds
    if any(kept.path(each, splits[0]).exists() for each in folders):
        return {str(each): [kept.read(each, split) for split in splits] for each in folders}
    if predict:
        return {name: predict(name) for name in map(str, seeds)} or {str(run): predict(str(run))}
    raise InputError(
        f"A member of an ensemble must have predictions. Received {run} without "
        f"{kept.path(folder, splits[0]).name}; run it with --do_eval or --do_predict first."
    )


def _report(
    task: Task,
    members: Mapping[str, Sequence[Probabilities]],
    splits: Sequence[str],
    output_dir: Path | None,
) -> dict[str, Any]:
    ensemble = [average({name: parts[i] for name, parts in members.items()}) for i in range(len(splits))]
    report = {
        "members": {name: probabilities_metrics(task, parts) for name, parts in members.items()},
        "ensemble": probabilities_metrics(task, ensemble),
    }
    if output_dir is not None:
        output_dir.mkdir(parents=True, exist_ok=True)
        for split, part in zip(splits, ensemble, strict=True):
            keep_predictions(output_dir, split, task.kind, part, None)
    return report


def _question_report(
    task: Task,
    members: Mapping[str, SquadPredictions],
    split: str,
    answers: Mapping[str, Sequence[str]] | None,
    threshold: float | None,
    output_dir: Path | None,
) -> dict[str, Any]:
    ensemble = average_answers(members)
    report = {
        "members": {
            name: _question_metrics(task, answers, member, threshold) for name, member in members.items()
        },
        "ensemble": _question_metrics(task, answers, ensemble, threshold),
    }
    if output_dir is not None:
        output_dir.mkdir(parents=True, exist_ok=True)
        keep_predictions(output_dir, split, task.kind, ensemble, _threshold(answers, ensemble, threshold))
    return report


def _threshold(
    answers: Mapping[str, Sequence[str]] | None, predictions: SquadPredictions, threshold: float | None
) -> float | None:
    if threshold is not None or predictions.null_odds is None:
        return threshold
    return choose_threshold(answers, predictions.texts(), predictions.null_odds) if answers else 0.0


def _question_metrics(
    task: Task,
    answers: Mapping[str, Sequence[str]] | None,
    predictions: SquadPredictions,
    threshold: float | None,
) -> dict[str, float]:
    if answers is None:
        return {}
    if not may_lack_answers(task, answers):
        return evaluate_squad1(answers, predictions.texts())
    chosen = _threshold(answers, predictions, threshold)
    if predictions.null_odds is None or chosen is None:
        return evaluate_squad2(answers, predictions.texts())
    metrics = evaluate_squad2(answers, predictions.texts(), predictions.null_odds, na_prob_thresh=chosen)
    return {**metrics, "threshold": chosen}


def average(members: Mapping[str, Probabilities]) -> Probabilities:
    """The mean of the members' probabilities and thresholds, or of their numbers in regression.

    Args:
      members: name -> predictions for the same examples.

    Raises:
      InputError: their examples, classes or labels differ.
    """
    first_name, first = next(iter(members.items()))
    members = {name: member.in_order(first.classes) for name, member in members.items()}
    for name, member in members.items():
        for what in ("classes", "ids", "labels"):
            if getattr(member, what) != getattr(first, what):
                raise InputError(
                    f"Members of an ensemble must have the same {what}. Those of {first_name} and {name} differ; "
                    "were they trained on the same task and files?"
                )
        shapes = [(a.shape, b.shape) for a, b in zip(first.values, member.values, strict=True)]
        if any(a != b for a, b in shapes):
            raise InputError(
                f"Members of an ensemble must have the same words. Those of {first_name} and {name} differ."
            )
    values = tuple(
        np.mean(values, axis=0)
        for values in zip(*(member.values for member in members.values()), strict=True)
    )
    all_thresholds = [member.thresholds for member in members.values()]
    thresholds = tuple(np.mean(all_thresholds, axis=0).tolist()) if all(all_thresholds) else ()
    return Probabilities(first.ids, first.classes, values, first.labels, first.groups, thresholds)


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
