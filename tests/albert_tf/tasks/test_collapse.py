"""What shows that a model has learned nothing, and what does not."""

import math

import numpy as np
import pytest

from albert_tf.tasks.choice.rows import ChoiceExample
from albert_tf.tasks.collapse import entropy, one_answer, one_number, stuck
from albert_tf.tasks.probabilities import Probabilities
from albert_tf.tasks.spans.answers import Answer, SquadPredictions
from albert_tf.tasks.spans.rows import QuestionExample
from albert_tf.tasks.splits import EncodedSplit
from albert_tf.tasks.task import find_task

N = 100
RNG = np.random.default_rng(0)


def seen(task: str, values, labels, classes=(), **options) -> str:
    """What the kind sees in the predictions of a dev set."""
    ids = tuple(map(str, range(len(values))))
    part = Probabilities(ids, classes, tuple(map(np.asarray, values)), labels, **options)
    return find_task(task).kind.collapse([EncodedSplit("dev", (), ())], [part])


def of_class(number: int, of: int = 2) -> np.ndarray:
    return np.eye(of)[number] * 0.9 + 0.05


@pytest.mark.parametrize(
    ("bad", "labelled_bad", "is_collapse"),
    [
        (N, 50, True),
        (98, 50, True),
        (90, 50, False),
        (N, 89, True),
        (N, 95, False),  # the data is nearly all one class
        (0, 50, True),
        (50, 50, False),
        (N, 0, False),
    ],
)
def test_classes(bad, labelled_bad, is_collapse):
    values = [of_class(int(i >= bad)) for i in range(N)]
    labels = ("bad",) * labelled_bad + ("good",) * (N - labelled_bad)
    found = seen("classification", values, labels, ("bad", "good"))
    answer = "bad" if bad else "good"
    assert found == (f"{max(bad, N - bad)} of {N} predictions are '{answer}'" if is_collapse else "")


def test_nothing_is_said_of_few_examples_or_unknown_labels():
    values = [of_class(0)] * N
    assert seen("classification", values, None, ("bad", "good")) == ""
    assert seen("classification", values[:8], ("bad", "good") * 4, ("bad", "good")) == ""
    assert one_answer([]) == one_number([]) == ""


def test_numbers():
    labels = tuple(RNG.uniform(0, 5, N).tolist())
    constant = RNG.normal(2.7, 0.01, N)
    assert seen("regression", constant, labels) == "all 100 predictions are about 2.7"
    assert seen("regression", constant + 0.2 * np.array(labels), labels) == ""
    assert seen("regression", constant, (2.0,) * N) == ""


def test_several_labels():
    """Whatever the thresholds, which may lie among probabilities that are nearly the same."""
    classes, labels = ("x", "y"), (("x",), (), ("x", "y"), ("y",)) * 25
    same = np.array((0.4, 0.6)) + np.resize((-0.005, 0.005), (N, 1))
    options = {"classes": classes, "thresholds": (0.4, 0.6)}
    assert (
        seen("multi-label-classification", same, labels, **options)
        == "all 100 predictions are about 0.4, 0.6"
    )
    different = [[0.4, 0.4 + 0.2 * ("y" in names)] for names in labels]
    assert seen("multi-label-classification", different, labels, **options) == ""
    assert seen("multi-label-classification", same, ((),) * N, **options) == ""


def test_words_are_mostly_outside_entities():
    sentence, labels = [of_class(0)] * 10, ("O",) * 9 + ("B-X",)
    values = [sentence] * N
    found = seen("token-classification", values, (labels,) * N, ("O", "B-X"))
    assert found == "1,000 of 1,000 predictions are 'O'"
    some = [[*sentence[:9], of_class(1)]] * 10 + values[10:]
    assert seen("token-classification", some, (labels,) * N, ("O", "B-X")) == ""
    assert seen("token-classification", values, (("O",) * 10,) * N, ("O", "B-X")) == ""


def test_options():
    labels, letters = tuple("ABCD" * 25), tuple("ABCD")
    assert seen("race", [of_class(1, 4)] * N, labels, letters) == "100 of 100 predictions are 'B'"
    even = RNG.normal(0.25, 0.001, (N, 4))
    assert seen("race", even, labels, letters) == "all options of a question have about the same probability"
    assert seen("race", [of_class(i % 4, 4) for i in range(N)], labels, letters) == ""


def seen_in_answers(task: str, starts, null_odds=None, impossible=0) -> str:
    """Of questions whose answers begin at 0, 1, 2 ..., of which the first have none."""
    questions = [
        QuestionExample(str(i), "q", "c" * N, ("c",) * (i >= impossible), (i,) * (i >= impossible))
        for i in range(N)
    ]
    n_best = {str(i): [Answer(f"w{i}", start, 1.0, 0.0, 0.0)] for i, start in enumerate(starts)}
    odds = None if null_odds is None else {str(i): float(value) for i, value in enumerate(null_odds)}
    split = EncodedSplit("dev", questions, ())
    return find_task(task).kind.collapse([split], [SquadPredictions(n_best, odds)])


def test_answers():
    assert seen_in_answers("squad1.1", range(N)) == ""
    assert seen_in_answers("squad1.1", [0] * N) == "100 of 100 predictions are answers from character 0"
    # The answers are wrong, so that the best threshold gives none.
    assert (
        seen_in_answers("squad2.0", range(N), [1.0] * N, impossible=50)
        == "100 of 100 predictions are no answer"
    )
    assert seen_in_answers("squad2.0", range(N), [1.0] * N, impossible=95) == ""


def test_a_loss_that_never_left_its_start():
    assert entropy(["a"] * 50 + ["b"] * 50) == pytest.approx(math.log(2))
    assert entropy(["a"]) == 0.0
    still = [0.69, 0.70, 0.68, 0.69]
    assert stuck(still) == "the training loss never left its start: 0.690 at first, 0.690 at the end"
    assert stuck([0.9, 0.7, 0.7, 0.69], math.log(2))  # the head's first guesses were bad ones
    assert not stuck([0.69, 0.6, 0.5, 0.4])
    assert not stuck([0.69, *[0.6] * 8, 0.9, 0.5, 0.4])  # the median of the last quarter
    assert not stuck(still[:3])
    assert find_task("sst-2").kind.loss_of_guess(["0", "1"]) == pytest.approx(math.log(2))
    assert find_task("ordinal-classification").kind.loss_of_guess(["1", "2"]) == math.inf


def test_options_of_different_numbers():
    example = ChoiceExample("a", "p", "q", ("1", "2"))
    assert example.label is None  # unknown labels: the probabilities alone decide
    values = [np.full(2 + i % 2, 1 / (2 + i % 2)) for i in range(N)]
    assert seen("multiple-choice", values, None, tuple("ABC")).startswith("all options")
