"""The metrics of tasks with classes, numbers, options and labelled words, by scikit-learn and scipy."""

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from albert_tf.tasks.run_predictions import Probabilities
from albert_tf.tasks.task import Task
from albert_tf.tasks.texts.rows import as_ordinals
from data_prep.errors import needs_extra

with needs_extra("Computing metrics", "scikit-learn", "metrics"):
    from scipy import stats
    from sklearn import metrics
    from sklearn.preprocessing import MultiLabelBinarizer


def probabilities_metrics(task: Task, parts: Sequence[Probabilities]) -> dict[str, float]:
    """The metrics over all parts together, such as both dev sets of MNLI; {} if labels are unknown."""
    if any(part.labels is None for part in parts):
        return {}
    predictions = [prediction for part in parts for prediction in part.predictions()]
    labels = [label for part in parts for label in part.labels or ()]
    groups = [group for part in parts for group in part.groups or ()]
    return task_metrics(task, predictions, labels, groups or None, classes=parts[0].classes)


def task_metrics(
    task: Task,
    predictions: Sequence[Any],
    labels: Sequence[Any],
    groups: Sequence[str] | None = None,
    classes: Sequence[str] = (),
) -> dict[str, float]:
    """The metrics of any task but question answering, as fractions of 1.

    Args:
      task: determines the metrics.
      predictions: for each example a class (its name or number), a number in regression, an option in multiple
        choice, or a sequence of labels in multi-label and token classification.
      labels: likewise.
      groups: of each example, such as RACE's "middle" and "high" or MNLI's "m" and "mm"; adds accuracy_GROUP.
      classes: in ordinal classification the classes in order, unless they are numbers.

    Returns:
      The task's metrics, and accuracy except in regression. Ordinal classification adds the mean absolute error,
      token classification precision and recall. Accuracy in multi-label classification is the share of examples
      all of whose labels are right.
    """
    if len(predictions) != len(labels) or not len(labels):
        raise ValueError(
            "There must be one prediction for each label, and at least one. "
            f"Received {len(predictions)} and {len(labels)}."
        )
    if task.kind == "regression":
        return {
            "pearson": _correlation(stats.pearsonr, predictions, labels),
            "spearman": _correlation(stats.spearmanr, predictions, labels),
        }
    if task.kind == "token_classification":
        return words_metrics(predictions, labels)
    if task.kind == "ordinal_classification":
        return ordinal_metrics(predictions, labels, classes)
    if task.kind == "multi_label_classification":
        return label_set_metrics(predictions, labels)
    predicted, expected = [str(label) for label in predictions], [str(label) for label in labels]
    result = {name: _CLASS_METRICS[name](predicted, expected) for name in ("accuracy", *task.metrics)}
    for group in sorted(set(groups or ())):
        members = [i for i, name in enumerate(groups or ()) if name == group]
        right = sum(predicted[i] == expected[i] for i in members)
        result[f"accuracy_{group}"] = right / len(members)
    return result


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


def words_metrics(predictions: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]) -> dict[str, float]:
    """Accuracy of words' labels; precision, recall and F1 of whole entities, counted as conlleval does.

    Labels without B- and I- (such as parts of speech) mark no entities. Precision, recall and F1 are then
    scikit-learn's macro averages over labels.
    """
    expected = [label for sentence in labels for label in sentence]
    predicted = [label for sentence in predictions for label in sentence]
    result = {"accuracy": _accuracy(predicted, expected)}
    if not _has_entities(expected):
        precision, recall, _, _ = metrics.precision_recall_fscore_support(
            expected, predicted, average="macro", zero_division=0
        )
        scores = {"precision": precision, "recall": recall, "f1": _macro_f1(predicted, expected)}
        return result | {name: float(score) for name, score in scores.items()}
    pairs = [(_entities(p), _entities(e)) for p, e in zip(predictions, labels, strict=True)]
    common = sum(len(ours & gold) for ours, gold in pairs)
    ours, gold = (sum(map(len, side)) for side in zip(*pairs, strict=True))
    return result | {
        "precision": common / max(1, ours),
        "recall": common / max(1, gold),
        "f1": 2 * common / max(1, ours + gold),
    }


def _has_entities(labels: Sequence[str]) -> bool:
    """Whether labels have the form B-PER, I-PER (or E-, S-, L-, U-) and O."""
    return any(label[:2] in ("B-", "I-", "E-", "S-", "L-", "U-") for label in labels)


def _entities(labels: Sequence[str]) -> set[tuple[str, int, int]]:
    """The entities of a sentence as (kind, begin, end), by conlleval's rules for IOB1, IOB2, IOBES and BILOU.

    A word continues the entity of the word before it if both have the same kind, the word before may be continued
    (B-, I-) and this one may continue (I-, E-, L-). Any other word with a kind begins an entity.

    >>> sorted(_entities(["B-PER", "I-PER", "I-LOC", "O", "I-LOC"]))
    [('LOC', 2, 3), ('LOC', 4, 5), ('PER', 0, 2)]
    """
    entities, begin, mark_before, kind_before = set(), 0, "O", ""
    for i, label in enumerate([*labels, "O"]):
        mark, kind = (label[0], label.partition("-")[2]) if label[1:2] == "-" else ("I", label)
        kind = "" if label == "O" else kind
        if kind == kind_before and mark_before in "BI" and mark in "IEL":
            mark_before = mark
            continue
        if kind_before:
            entities.add((kind_before, begin, i))
        begin, mark_before, kind_before = i, mark, kind
    return entities


def _accuracy(predicted: list[str], expected: list[str]) -> float:
    return float(metrics.accuracy_score(expected, predicted))


def _f1_of_one(predicted: list[str], expected: list[str]) -> float:
    """F1 of class 1."""
    positive = [label == "1" for label in expected], [label == "1" for label in predicted]
    return float(metrics.f1_score(*positive, zero_division=0))


def _macro_f1(predicted: list[str], expected: list[str]) -> float:
    return float(metrics.f1_score(expected, predicted, average="macro", zero_division=0))


def _matthews(predicted: list[str], expected: list[str]) -> float:
    if len({*predicted, *expected}) == 1:  # scikit-learn gives 0 too, with a warning
        return 0.0
    return float(metrics.matthews_corrcoef(expected, predicted))


_CLASS_METRICS: Mapping[str, Callable[[list[str], list[str]], float]] = MappingProxyType(
    {"accuracy": _accuracy, "f1": _f1_of_one, "macro_f1": _macro_f1, "matthews": _matthews}
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
