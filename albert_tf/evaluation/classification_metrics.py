"""The metrics of tasks with classes, numbers, choices and labelled words, by scikit-learn, scipy and seqeval."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats
from sklearn import metrics

from data_prep.errors import InputError

# What a best checkpoint is chosen by; accuracy for the rest.
_MAIN = {
    "cola": "matthews",
    "ax": "matthews",
    "sts-b": "pearson",
    "regression": "pearson",
    "token-classification": "f1",
    "squad1.1": "f1",
    "squad2.0": "f1",
    "question-answering": "f1",
}


def main_metric(task_name: str) -> str:
    """The name of the metric that decides which checkpoint is best; more is better in all of them."""
    return _MAIN.get(task_name, "accuracy")


def task_metrics(
    task_name: str,
    predictions: Sequence[Any],
    labels: Sequence[Any],
    groups: Sequence[str] | None = None,
) -> dict[str, float]:
    """The metrics of a task other than question answering, as fractions of 1.

    Args:
      task_name: for instance "cola"; what is not known is taken for classification.
      predictions: a class (a name or a number), a number in regression, an option's number in multiple choice; a
        sequence of labels an example for token classification.
      labels: likewise.
      groups: of each example, as RACE's "middle" and "high" or MNLI's "m" and "mm"; adds accuracy_GROUP for each.

    Returns:
      accuracy for classes and choices, with f1 of class 1 for MRPC and QQP, matthews for CoLA and AX, and macro_f1
      for own data; pearson and spearman for numbers; accuracy, precision, recall and f1 for labelled words.

    Raises:
      InputError: token classification without seqeval.
    """
    if len(predictions) != len(labels) or not len(labels):
        raise ValueError(
            f"One prediction a label, and one or more. Received {len(predictions)} and {len(labels)}."
        )
    if task_name in ("sts-b", "regression"):
        return {
            "pearson": _correlation(stats.pearsonr, predictions, labels),
            "spearman": _correlation(stats.spearmanr, predictions, labels),
        }
    if task_name == "token-classification":
        return words_metrics(predictions, labels)
    predicted, expected = [str(label) for label in predictions], [str(label) for label in labels]
    result = {"accuracy": float(metrics.accuracy_score(expected, predicted))}
    if task_name in ("mrpc", "qqp"):
        result["f1"] = _f1_of_one(predicted, expected)
    elif task_name == "classification":
        result["macro_f1"] = _macro_f1(predicted, expected)
    elif task_name in ("cola", "ax"):
        one_class = len({*predicted, *expected}) == 1  # scikit-learn gives 0 too, with a warning
        result["matthews"] = 0.0 if one_class else float(metrics.matthews_corrcoef(expected, predicted))
    for group in sorted(set(groups or ())):
        of_group = [i for i, name in enumerate(groups or ()) if name == group]
        right = sum(predicted[i] == expected[i] for i in of_group)
        result[f"accuracy_{group}"] = right / len(of_group)
    return result


def words_metrics(predictions: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]) -> dict[str, float]:
    """Accuracy of words' labels; precision, recall and F1 of whole entities as conlleval counts them.

    Labels without B- and I- (parts of speech, say) mark no entities: then the three are scikit-learn's macro
    averages over labels.

    Raises:
      InputError: there are entities, and seqeval is not installed.
    """
    expected = [label for sentence in labels for label in sentence]
    predicted = [label for sentence in predictions for label in sentence]
    result = {"accuracy": float(metrics.accuracy_score(expected, predicted))}
    names = ("precision", "recall", "f1")
    if not has_entities(expected):
        precision, recall, _, _ = metrics.precision_recall_fscore_support(
            expected, predicted, average="macro", zero_division=0
        )
        return result | dict(
            zip(names, (float(precision), float(recall), _macro_f1(predicted, expected)), strict=True)
        )
    seqeval = import_seqeval()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*seems not to be NE tag", category=UserWarning)
        precision, recall, f1, _ = seqeval.precision_recall_fscore_support(
            [list(sentence) for sentence in labels],
            [list(sentence) for sentence in predictions],
            average="micro",
            zero_division=0,
        )
    return result | dict(zip(names, (float(precision), float(recall), float(f1)), strict=True))


def has_entities(labels: Sequence[str]) -> bool:
    """Whether labels are of the form B-PER, I-PER (or E-, S-, L-, U-) and O."""
    return any(label[:2] in ("B-", "I-", "E-", "S-", "L-", "U-") for label in labels)


def import_seqeval() -> Any:
    """seqeval's metrics.

    Raises:
      InputError: it is not installed.
    """
    try:
        from seqeval.metrics import sequence_labeling
    except ImportError:
        raise InputError(
            "The F1 of entities needs the package seqeval, which is not installed. "
            "Run pip install 'albert-tf[seqeval]'."
        ) from None
    return sequence_labeling


def _f1_of_one(predicted: list[str], expected: list[str]) -> float:
    positive = [label == "1" for label in expected], [label == "1" for label in predicted]
    return float(metrics.f1_score(*positive, zero_division=0))


def _macro_f1(predicted: list[str], expected: list[str]) -> float:
    return float(metrics.f1_score(expected, predicted, average="macro", zero_division=0))


def _correlation(function: Any, predictions: Sequence[float], labels: Sequence[float]) -> float:
    """0 where either side is constant, which has no correlation; not a number where a prediction is none."""
    x, y = np.asarray(predictions, np.float64), np.asarray(labels, np.float64)
    if not np.isfinite(x).all():
        return float("nan")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        return float(function(x, y).statistic)
