"""Metrics equal their definitions and the libraries'."""

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from albert_tf.tasks.probabilities import Probabilities
from albert_tf.tasks.task import find_task
from albert_tf.tasks.texts.metrics import best_thresholds
from data_prep.errors import InputError
from tests.reference import classification


def metrics_of(task, *arguments):
    return find_task(task).kind.score(find_task(task), *arguments)


def pairs(values, min_size=1):
    return st.lists(st.tuples(values, values), min_size=min_size, max_size=40).map(
        lambda rows: ([row[0] for row in rows], [row[1] for row in rows])
    )


@pytest.mark.slow
@hypothesis.given(pairs(st.sampled_from(["0", "1"])))
def test_accuracy_f1_and_matthews_of_two_classes(case):
    predictions, labels = case
    accuracy = sum(p == label for p, label in zip(*case, strict=True)) / len(labels)
    for task in ("sst-2", "qnli", "race", "mnli"):
        assert metrics_of(task, predictions, labels) == pytest.approx({"accuracy": accuracy}, abs=1e-9)
    for task in ("mrpc", "qqp"):
        expected = {"accuracy": accuracy, "f1": classification.f1(predictions, labels, "1")}
        assert metrics_of(task, predictions, labels) == pytest.approx(expected, abs=1e-9)
    cola = metrics_of("cola", predictions, labels)
    expected = {"accuracy": accuracy, "matthews": classification.matthews(predictions, labels)}
    assert cola == pytest.approx(expected, abs=1e-9)
    if len({*predictions, *labels}) > 1:  # else scikit-learn warns
        assert cola["matthews"] == pytest.approx(metrics.matthews_corrcoef(labels, predictions), abs=1e-9)


@pytest.mark.slow
@hypothesis.given(pairs(st.sampled_from(["entailment", "neutral", "contradiction"])))
def test_matthews_and_macro_f1_of_three_classes(case):
    predictions, labels = case
    received = metrics_of("ax", predictions, labels)["matthews"]
    assert received == pytest.approx(classification.matthews(predictions, labels), abs=1e-9)
    present = set(predictions) | set(labels)
    macro_f1 = sum(classification.f1(predictions, labels, c) for c in present) / len(present)
    assert metrics_of("classification", predictions, labels)["macro_f1"] == pytest.approx(macro_f1, abs=1e-9)


@pytest.mark.slow
@hypothesis.given(pairs(st.sampled_from(["1", "2", "5", "10"])))
def test_metrics_of_ordered_classes(case):
    received = metrics_of("ordinal-classification", *case)
    p, y = np.array(case, np.float64)
    assert received["accuracy"] == pytest.approx(np.mean(p == y))
    assert received["mean_absolute_error"] == pytest.approx(np.abs(p - y).mean())
    by_chance = np.square(p[:, None] - y).mean()
    kappa = 1 - np.square(p - y).mean() / by_chance if by_chance else 0.0
    assert received["quadratic_kappa"] == pytest.approx(kappa, abs=1e-9)


def test_ordered_classes_are_close_numbers():
    for labels in (["1", "good"], ["1", "2.5"], ["1", "102"]):
        with pytest.raises(InputError, match="whole numbers, such as 1 to 5 stars, at most 100 apart"):
            metrics_of("ordinal-classification", labels, labels)


def test_ordered_classes_with_names():
    task = find_task("ordinal-classification")
    received = task.kind.score(task, ["good", "bad"], ["fair", "bad"], classes=("bad", "fair", "good"))
    assert received == metrics_of("ordinal-classification", ["2", "0"], ["1", "0"])


LABEL_SETS = st.sampled_from([[], ["a"], ["c"], ["a", "b"], ["c", "b"], ["a", "b", "c"]])


@pytest.mark.slow
@hypothesis.given(pairs(LABEL_SETS))
def test_metrics_of_several_labels(case):
    predictions, labels = case
    present = sorted({name for names in (*predictions, *labels) for name in names})
    ours, theirs = (np.array([[name in names for name in present] for names in side], bool) for side in case)
    each = [classification.f1(*columns, True) for columns in zip(ours.T, theirs.T, strict=True)]
    together = classification.f1(ours.ravel(), theirs.ravel(), True) if present else 0.0
    assert metrics_of("multi-label-classification", predictions, labels) == pytest.approx(
        {
            "accuracy": np.mean([set(a) == set(b) for a, b in zip(predictions, labels, strict=True)]),
            "micro_f1": together,
            "macro_f1": np.mean(each) if each else 0.0,
        },
        abs=1e-9,
    )


def test_the_best_threshold_of_each_label():
    """Between the examples that it separates best; 0.5 for a label without examples."""
    values = np.array([[0.9, 0.2, 0.3], [0.8, 0.1, 0.6], [0.4, 0.7, 0.1]])
    labels = (("a", "b"), ("a",), ("b",))
    part = Probabilities(("0", "1", "2"), ("a", "b", "c"), tuple(values), labels)
    assert best_thresholds([part]) == pytest.approx((0.6, 0.15, 0.5))
    only_the_highest = Probabilities(("0", "1", "2"), ("c",), tuple(values[:, 2:]), ((), ("c",), ()))
    assert best_thresholds([only_the_highest]) == pytest.approx((0.45,))


NUMBERS = st.integers(0, 500).map(lambda n: n / 100)


@pytest.mark.slow
@hypothesis.given(pairs(NUMBERS, min_size=2).filter(lambda case: min(len(set(side)) for side in case) > 1))
def test_correlations(case):
    received = metrics_of("sts-b", *case)
    expected = {"pearson": classification.pearson(*case), "spearman": classification.spearman(*case)}
    assert received == pytest.approx(expected, abs=1e-9)
    assert received["pearson"] == pytest.approx(stats.pearsonr(*case).statistic, abs=1e-9)
    assert received["spearman"] == pytest.approx(stats.spearmanr(*case).statistic, abs=1e-9)


def test_constants_and_nan_have_no_correlation():
    assert metrics_of("sts-b", [2.5, 2.5], [1.0, 3.0]) == {"pearson": 0.0, "spearman": 0.0}
    assert metrics_of("regression", [2.5], [1.0]) == {"pearson": 0.0, "spearman": 0.0}
    assert all(math.isnan(value) for value in metrics_of("sts-b", [math.nan, 2.5], [1.0, 3.0]).values())
    assert metrics_of("sts-b", [1e9, 1e9 + 1e-6], [1.0, 3.0])["pearson"] == pytest.approx(1.0)


def test_groups():
    received = metrics_of("race", [0, 1, 2, 3], [0, 1, 2, 0], ["middle", "middle", "high", "high"])
    assert received == {"accuracy": 0.75, "accuracy_middle": 1.0, "accuracy_high": 0.5}


LABELS = st.sampled_from(["O", *(f"{mark}-{kind}" for mark in "BIES" for kind in ("PER", "LOC"))])
WORDS = st.lists(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=8), min_size=1, max_size=5)


@hypothesis.given(WORDS)
def test_entities_equal_seqeval(sentences):
    sequence_labeling = pytest.importorskip("seqeval.metrics.sequence_labeling", reason="needs seqeval")
    predictions = [["O"], *[[row[0] for row in sentence] for sentence in sentences]]
    labels = [["B-PER"], *[[row[1] for row in sentence] for sentence in sentences]]
    scores = sequence_labeling.precision_recall_fscore_support(
        labels, predictions, average="micro", zero_division=0
    )
    flat = [
        p == label for a, b in zip(predictions, labels, strict=True) for p, label in zip(a, b, strict=True)
    ]
    expected = dict(zip(("precision", "recall", "f1"), scores, strict=False)) | {"accuracy": np.mean(flat)}
    received = metrics_of("token-classification", predictions, labels)
    assert received == pytest.approx(expected, abs=1e-9)


def test_entities_of_bilou_equal_those_of_iobes():
    iobes = [["B-PER", "E-PER", "S-PER", "S-PER", "O"], ["S-LOC", "B-LOC", "I-LOC", "E-LOC"]]
    bilou = [[label.replace("E-", "L-").replace("S-", "U-") for label in sentence] for sentence in iobes]
    for labels in (iobes, bilou):
        mistaken = [["O", *labels[0][1:]], labels[1]]  # one of five, and another one in its place
        received = metrics_of("token-classification", mistaken, labels)
        assert received["f1"] == pytest.approx(0.8)


def test_parts_of_speech_are_not_entities():
    received = metrics_of("token-classification", [["NOUN", "VERB"], ["NOUN"]], [["NOUN", "NOUN"], ["NOUN"]])
    assert received == pytest.approx({"accuracy": 2 / 3, "precision": 0.5, "recall": 1 / 3, "f1": 0.4})


def test_main_metric_is_one_of_the_metrics():
    for task in ("cola", "mrpc", "mnli", "ax", "race", "classification"):
        assert find_task(task).main_metric in metrics_of(task, ["0", "1"], ["0", "1"])
    for task in ("sts-b", "regression"):
        assert find_task(task).main_metric in metrics_of(task, [0.0, 1.0], [0.0, 1.0])
    assert find_task("token-classification").main_metric in metrics_of(
        "token-classification", [["NOUN"]], [["NOUN"]]
    )


def measured(parts):
    race = find_task("race")
    return race.kind.measure(race, (), parts)


def test_parts_are_measured_together():
    """Both dev sets of MNLI; the groups of RACE."""
    values = (np.array([0.9, 0.1]), np.array([0.2, 0.8]))
    first, second = (
        Probabilities(("a", "b"), ("A", "B"), values, labels) for labels in (("A", "B"), ("B", "B"))
    )
    assert measured([first, second])["accuracy"] == 0.75
    unknown = Probabilities(("a", "b"), ("A", "B"), values)
    assert measured([first, unknown]) == {}
    grouped = Probabilities(("a", "b"), ("A", "B"), values, ("A", "A"), ("high", "middle"))
    found = measured([grouped])
    assert found == {"accuracy": 0.5, "accuracy_high": 1.0, "accuracy_middle": 0.0}
