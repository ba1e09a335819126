"""From a model's outputs to predictions, metrics and files."""

import dataclasses
import string
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from albert_tf.tasks.examples import QuestionExample
from albert_tf.tasks.run_predictions import Probabilities
from albert_tf.tasks.spans.answers import SquadPredictions, predict_answers
from albert_tf.tasks.spans.metrics import (
    choose_threshold,
    evaluate_squad1,
    evaluate_squad2,
    may_lack_answers,
)
from albert_tf.tasks.splits import EncodedSplit, mean_loss
from albert_tf.tasks.task import SPLIT_GROUPS, Task
from data_prep.errors import InputError

Predictions = Probabilities | SquadPredictions
Rows = Sequence[Mapping[str, np.ndarray]]


class Labelled(Protocol):
    """What predictions need of a model: its classes, and for several labels of a text their thresholds."""

    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def thresholds(self) -> tuple[float, ...]: ...


EVEN_ODDS = 0.0  # log odds above which there is no answer, unless a dev set gives a threshold


def main_metric_of(task: Task) -> str:
    """The name of the metric that chooses the best weights; larger is better."""
    return "best_f1" if task.answerable else task.main_metric


def predictions_of(
    task: Task, split: EncodedSplit, rows: Rows, model: Labelled, max_answer_length: int, n_best: int = 20
) -> Predictions:
    """The predictions for each example of a split.

    Args:
      task: the task.
      split: the model's inputs.
      rows: its outputs for each of the split's features, from `by_row`.
      model: the model, for its labels and thresholds.
      max_answer_length: for question answering, in tokens.
      n_best: for question answering, the number of answers to each question.
    """
    examples: Sequence[Any] = split.examples
    labels = model.labels
    if task.kind == "question_answering":
        return predict_answers(
            examples, split.windows, rows, n_best=n_best, max_answer_length=max_answer_length
        )
    ids = tuple(example.id for example in examples)
    outputs = [np.asarray(row["output"], np.float64) for row in rows]
    if task.kind == "regression":
        return Probabilities(ids, (), tuple(outputs), _known(example.label for example in examples))
    if task.kind == "token_classification":
        values = tuple(
            word_probabilities(len(example.words), features["word_index"], output, labels)
            for example, features, output in zip(examples, split.features, outputs, strict=True)
        )
        return Probabilities(ids, labels, values, _known(example.labels for example in examples))
    if task.kind == "multi_label_classification":
        values, right = tuple(map(sigmoid, outputs)), _known(example.label for example in examples)
        return Probabilities(ids, labels, values, right, thresholds=model.thresholds)
    values = tuple(map(softmax, outputs))
    if task.kind == "multiple_choice":
        letters = tuple(string.ascii_uppercase[: max(len(example.options) for example in examples)])
        right = _known(None if example.label is None else letters[example.label] for example in examples)
        of_race = tuple(example.group for example in examples)
        return Probabilities(ids, letters, values, right, of_race if all(of_race) else None)
    group = SPLIT_GROUPS.get(split.name)
    groups = (group,) * len(ids) if group else None
    return Probabilities(ids, labels, values, _known(example.label for example in examples), groups)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of classes (..., C)."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities of labels (..., C), without overflow."""
    return np.exp(-np.logaddexp(0, -logits))


def with_best_thresholds(parts: Sequence[Predictions]) -> tuple[list[Predictions], tuple[float, ...]]:
    """Predictions of several labels with the thresholds that are best for them, and these thresholds."""
    from albert_tf.tasks.texts.metrics import best_thresholds

    labelled = [part for part in parts if isinstance(part, Probabilities)]
    thresholds = best_thresholds(labelled)
    return [dataclasses.replace(part, thresholds=thresholds) for part in labelled], thresholds


def metrics_of(
    task: Task, splits: Sequence[EncodedSplit], predictions: Sequence[Predictions]
) -> dict[str, float]:
    """The task's metrics over all splits of a role, such as both dev sets of MNLI; empty if labels are unknown."""
    if task.kind == "question_answering":
        return _squad_metrics(task, splits, predictions)  # type: ignore[arg-type]
    from albert_tf.tasks.texts.metrics import probabilities_metrics  # predicting needs none

    return probabilities_metrics(task, predictions)  # type: ignore[arg-type]


def metrics_with_loss(
    task: Task,
    splits: Sequence[EncodedSplit],
    predictions: Sequence[Predictions],
    rows: list[dict[str, np.ndarray]],
) -> dict[str, float]:
    """`metrics_of`, and if labels are known the number of examples, and the loss if the outputs `rows` have it."""
    metrics = metrics_of(task, splits, predictions)
    if not metrics:
        return metrics
    loss = {"loss": mean_loss(rows)} if all("loss" in row for row in rows) else {}
    return {**loss, **metrics, "examples": sum(len(split.examples) for split in splits)}


def null_threshold_of(results: Mapping[str, Any]) -> float:
    """The null odds above which a model of SQuAD 2.0 finds no answer: the best on the dev set of its run.

    Args:
      results: of the run, as in its results.json; older ones have only the official script's threshold.

    Raises:
      InputError: the threshold is not a number.
    """
    dev = results.get("dev", {})
    threshold = dev.get("threshold", dev.get("best_f1_thresh", EVEN_ODDS))
    if not isinstance(threshold, int | float):
        raise InputError(f"`threshold` in results.json must be a number. Received {threshold!r}.")
    return threshold


def has_answers(task: Task, splits: Sequence[EncodedSplit]) -> bool:
    """Whether the answers to some questions are known; that none of them has one is known, too."""
    questions = [one for split in splits for one in split.examples if isinstance(one, QuestionExample)]
    if any(question.answers for question in questions):
        return True
    return task.answerable and all(question.is_impossible for question in questions)


def _squad_metrics(
    task: Task, splits: Sequence[EncodedSplit], predictions: Sequence[SquadPredictions]
) -> dict[str, float]:
    if not has_answers(task, splits):
        return {}
    answers = {
        example.id: example.answers  # alone decide, as in the official script, also if `is_impossible` differs
        for split in splits
        for example in split.examples
        if isinstance(example, QuestionExample)
    }
    texts = {id_: text for one in predictions for id_, text in one.texts().items()}
    if task.answerable:
        null_odds = {id_: odds for one in predictions for id_, odds in (one.null_odds or {}).items()}
        metrics = evaluate_squad2(answers, texts, null_odds, na_prob_thresh=EVEN_ODDS)
        return {**_without_totals(metrics), "threshold": choose_threshold(answers, texts, null_odds)}
    if may_lack_answers(task, answers):
        return _without_totals(evaluate_squad2(answers, texts))
    answers = {id_: accepted for id_, accepted in answers.items() if accepted}
    return evaluate_squad1(answers, {id_: texts[id_] for id_ in answers})


def _without_totals(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if not name.endswith("total")}


def word_probabilities(
    words: int, word_index: np.ndarray, logits: np.ndarray, labels: Sequence[str]
) -> np.ndarray:
    """Probabilities (W, C) of words from logits (T, C); words beyond the longest sequence are outside entities.

    Args:
      words: W.
      word_index: the word that begins at each token, or -1; shape (T,).
      logits: of the tokens.
      labels: the C classes.
    """
    values = np.zeros((words, len(labels)))
    values[:, labels.index(outside_label(labels))] = 1.0
    places = np.flatnonzero(word_index >= 0)
    values[word_index[places]] = softmax(logits[places])
    return values


def outside_label(labels: Sequence[str]) -> str:
    """The label of words beyond the longest sequence."""
    return "O" if "O" in labels else labels[0]


def _known(labels: Any) -> tuple[Any, ...] | None:
    labels = tuple(labels)
    return None if any(label is None for label in labels) else labels
