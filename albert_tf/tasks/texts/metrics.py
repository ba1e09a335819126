"""The metrics of classes, sets of labels, ordered classes and numbers, by scikit-learn and scipy."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from albert_tf.tasks.probabilities import Probabilities
from albert_tf.tasks.texts.rows import as_ordinals
from data_prep.errors import needs_extra

with needs_extra("Computing metrics", "scikit-learn", "metrics"):
    from scipy import stats
    from sklearn import metrics
    from sklearn.preprocessing import MultiLabelBinarizer


def class_metrics(
    names: Sequence[str], predictions: Sequence[Any], labels: Sequence[Any], groups: Sequence[str] = ()
) -> dict[str, float]:
    """Accuracy and other metrics of classes.

    Args:
      names: of the other metrics.
      predictions: a class for each example.
      labels: likewise.
      groups: of each example; adds accuracy_GROUP.
    """
    predicted, expected = [str(label) for label in predictions], [str(label) for label in labels]
    result = {name: _CLASS_METRICS[name](predicted, expected) for name in ("accuracy", *names)}
    for group in sorted(set(groups)):
        members = [i for i, name in enumerate(groups) if name == group]
        right = sum(predicted[i] == expected[i] for i in members)
        result[f"accuracy_{group}"] = right / len(members)
    return result


def number_metrics(predictions: Sequence[float], labels: Sequence[float]) -> dict[str, float]:
    """The correlations of numbers."""
    return {
        "pearson": _correlation(stats.pearsonr, predictions, labels),
        "spearman": _correlation(stats.spearmanr, predictions, labels),
    }


def ordinal_metrics(
    predictions: Sequence[str], labels: Sequence[str], order: Sequence[str] = ()
) -> dict[str, float]:
    """Cohen's kappa with quadratic weights, accuracy, and the mean absolute error.

    Raises:
      InputError: the classes are neither numbers nor in `order`.
    """
    numbers = as_ordinals([*predictions, *labels], order)
    predicted, expected = numbers[: len(predictions)], numbers[len(predictions) :]
    classes = range(min(numbers), max(numbers) + 1)
    return {
        "quadratic_kappa": float(
            metrics.cohen_kappa_score(expected, predicted, labels=classes, weights="quadratic")
            if len(classes) > 1
            else 0.0  # undefined
        ),
        "accuracy": float(metrics.accuracy_score(expected, predicted)),
        "mean_absolute_error": float(metrics.mean_absolute_error(expected, predicted)),
    }


def label_set_metrics(
    predictions: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Accuracy of whole sets of labels, and F1 over all labels together (micro) and as their mean (macro)."""
    names = sorted({name for some in (*labels, *predictions) for name in some})
    # Two more columns, of zeros: scikit-learn takes arrays of one column for two classes.
    as_array = MultiLabelBinarizer(classes=[*range(2), *names]).fit([])
    expected, predicted = as_array.transform(labels), as_array.transform(predictions)
    f1 = functools.partial(
        metrics.f1_score, expected, predicted, labels=range(2, 2 + len(names)), zero_division=0
    )
    return {
        "accuracy": float(metrics.accuracy_score(expected, predicted)),
        "micro_f1": float(f1(average="micro")) if names else 0.0,
        "macro_f1": float(f1(average="macro")) if names else 0.0,
    }


def with_best_thresholds(parts: Sequence[Probabilities]) -> tuple[list[Probabilities], tuple[float, ...]]:
    """Predictions of several labels with the thresholds that are best for them, and these thresholds."""
    thresholds = best_thresholds(parts)
    return [dataclasses.replace(part, thresholds=thresholds) for part in parts], thresholds


def best_thresholds(parts: Sequence[Probabilities]) -> tuple[float, ...]:
    """For each class, the lowest probability at which an example gets it, chosen for the best F1 over all parts
    together.

    A threshold lies in the middle between two examples; 0.5 for a class that no example has.
    """
    probabilities = np.array([value for part in parts for value in part.values])
    labels = [label for part in parts for label in part.labels or ()]
    return tuple(
        _best_threshold(scores, np.array([name in names for names in labels]))
        for name, scores in zip(parts[0].classes, probabilities.T, strict=True)
    )


def _best_threshold(scores: np.ndarray, expected: np.ndarray) -> float:
    if not expected.any():
        return 0.5
    precision, recall, thresholds = metrics.precision_recall_curve(expected, scores)  # at each score, rising
    f1 = 2 * precision * recall / np.maximum(precision + recall, np.finfo(np.float64).tiny)
    best = int(np.argmax(f1[:-1]))
    return float((thresholds[best] + (thresholds[best - 1] if best else 0.0)) / 2)


def accuracy(predicted: list[str], expected: list[str]) -> float:
    """The share of right classes."""
    return float(metrics.accuracy_score(expected, predicted))


def _f1_of_one(predicted: list[str], expected: list[str]) -> float:
    """F1 of class 1."""
    positive = [label == "1" for label in expected], [label == "1" for label in predicted]
    return float(metrics.f1_score(*positive, zero_division=0))


def macro_f1(predicted: list[str], expected: list[str]) -> float:
    """The mean of the classes' F1."""
    return float(metrics.f1_score(expected, predicted, average="macro", zero_division=0))


def _matthews(predicted: list[str], expected: list[str]) -> float:
    if len({*predicted, *expected}) == 1:  # scikit-learn gives 0 too, with a warning
        return 0.0
    return float(metrics.matthews_corrcoef(expected, predicted))


_CLASS_METRICS: Mapping[str, Callable[[list[str], list[str]], float]] = MappingProxyType(
    {"accuracy": accuracy, "f1": _f1_of_one, "macro_f1": macro_f1, "matthews": _matthews}
)


def _correlation(function: Any, predictions: Sequence[float], labels: Sequence[float]) -> float:
    """0 if either side is constant, which has no correlation; NaN if a prediction is not finite."""
    x, y = np.asarray(predictions, np.float64), np.asarray(labels, np.float64)
    if not np.isfinite(x).all():
        return float("nan")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        return float(function(x, y).statistic)
