"""The metrics of fine-tuned runs and of their ensemble.

folders --read_probabilities, read_answers_of_run--> members --average, average_answers--> the whole --> metrics
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from albert_tf.evaluation.classification_metrics import task_metrics
from albert_tf.evaluation.ensemble import average, average_answers
from albert_tf.evaluation.probability_files import (
    Probabilities,
    probabilities_file,
    read_probabilities,
    write_probabilities,
)
from albert_tf.evaluation.squad_files import n_best_file, read_answers_of_run, write_answers
from albert_tf.evaluation.squad_metrics import (
    choose_threshold,
    evaluate_squad1,
    evaluate_squad2,
    gold_answers,
)
from albert_tf.evaluation.squad_predictions import SquadPredictions
from albert_tf.evaluation.submission import write_predictions
from data_prep.errors import InputError
from data_prep.files import read_json
from data_prep.tasks.task import Task

WHOLE = "ensemble"


def report_runs(
    task: Task,
    runs: Sequence[Path],
    role: str = "dev",
    *,
    gold: Path | None = None,
    threshold: float | None = None,
    output_dir: Path | None = None,
) -> dict[str, Any]:
    """The metrics of runs and of the mean of their predictions.

    Args:
      task: what they were trained on.
      runs: their folders; a folder of seed_0, seed_1, ... stands for all of them.
      role: "dev", or "test" to write predictions.
      gold: SQuAD's JSON file; needed for its metrics.
      threshold: SQuAD 2.0's null odds above which there is no answer. Default: the best for F1 by `gold`, or 0.
      output_dir: where to write the ensemble's predictions, as a run has them; None for nowhere.

    Returns:
      {"members": {folder: metrics}, "ensemble": metrics}; metrics are empty without right answers.

    Raises:
      InputError: there is no run, one lacks predictions, or they are of different examples.
    """
    splits = task.splits[role]
    if not splits:
        raise InputError(f"{task.name} has no {role} set. Name another one with --split.")
    is_question = task.kind == "question_answering"
    members = {
        str(folder): folder
        for run in runs
        for folder in _members(
            run, n_best_file(run, splits[0]) if is_question else probabilities_file(run, splits[0])
        )
    }
    if not members:
        raise InputError("Name the folders of two runs or more, or of one with several seeds. Received none.")
    if is_question:
        return _question_report(task, members, splits[0], gold, threshold, output_dir)
    return _report(task, members, splits, output_dir)


def _members(run: Path, file: Path) -> list[Path]:
    """The run itself if it has predictions, else its seeds."""
    if file.exists():
        return [run]
    seeds = sorted(run.glob("seed_*"), key=lambda path: (len(path.name), path.name))
    if not seeds:
        raise InputError(
            f"A member of an ensemble is a run that has predicted. Received {run} without {file.name}; run "
            "it with --do_eval or --do_predict first."
        )
    return seeds


def _report(
    task: Task, members: Mapping[str, Path], splits: Sequence[str], output_dir: Path | None
) -> dict[str, Any]:
    read = {
        name: [read_probabilities(probabilities_file(run, split)) for split in splits]
        for name, run in members.items()
    }
    whole = [average({name: parts[i] for name, parts in read.items()}) for i in range(len(splits))]
    if output_dir is not None:
        output_dir.mkdir(parents=True, exist_ok=True)
        for split, part in zip(splits, whole, strict=True):
            write_probabilities(probabilities_file(output_dir, split), part)
            write_predictions(output_dir, f"{split}_predictions", task.kind, part)
    return {
        "members": {name: _metrics(task, splits, parts) for name, parts in read.items()},
        WHOLE: _metrics(task, splits, whole),
    }


def _metrics(task: Task, splits: Sequence[str], parts: Sequence[Probabilities]) -> dict[str, float]:
    """Over all parts together; MNLI's two are groups."""
    if any(part.labels is None for part in parts):
        return {}
    predictions = [prediction for part in parts for prediction in part.predictions()]
    labels = [label for part in parts for label in part.labels or ()]
    groups = [group for part in parts for group in part.groups or ()]
    if len(splits) > 1:
        groups = [
            "m" if split.endswith("_matched") else "mm"
            for split, part in zip(splits, parts, strict=True)
            for _ in part.ids
        ]
    return task_metrics(task.name, predictions, labels, groups or None)


def _question_report(
    task: Task,
    members: Mapping[str, Path],
    split: str,
    gold: Path | None,
    threshold: float | None,
    output_dir: Path | None,
) -> dict[str, Any]:
    read = {name: read_answers_of_run(run, split) for name, run in members.items()}
    whole = average_answers(read)
    answers = gold_answers(read_json(gold), str(gold)) if gold else None
    if output_dir is not None:
        output_dir.mkdir(parents=True, exist_ok=True)
        write_answers(output_dir, split, whole, _threshold(answers, whole, threshold))
    return {
        "members": {
            name: _question_metrics(task, answers, member, threshold) for name, member in read.items()
        },
        WHOLE: _question_metrics(task, answers, whole, threshold),
    }


def _threshold(
    answers: Mapping[str, Sequence[str]] | None, member: SquadPredictions, threshold: float | None
) -> float | None:
    if threshold is not None or member.null_odds is None:
        return threshold
    return choose_threshold(answers, member.texts(), member.null_odds) if answers else 0.0


def _question_metrics(
    task: Task,
    answers: Mapping[str, Sequence[str]] | None,
    member: SquadPredictions,
    threshold: float | None,
) -> dict[str, float]:
    if answers is None:
        return {}
    if not task.answerable:
        return evaluate_squad1(answers, member.texts())
    chosen = _threshold(answers, member, threshold)
    if member.null_odds is None or chosen is None:
        return evaluate_squad2(answers, member.texts())
    metrics = evaluate_squad2(answers, member.texts(), member.null_odds, na_prob_thresh=chosen)
    return {**metrics, "threshold": chosen}
