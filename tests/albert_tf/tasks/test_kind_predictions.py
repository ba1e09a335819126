"""From outputs to predictions, and their metrics."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from albert_tf.tasks.choice.rows import ChoiceExample
from albert_tf.tasks.probabilities import Probabilities
from albert_tf.tasks.spans.answers import EVEN_ODDS, Answer, SquadPredictions, null_threshold_of
from albert_tf.tasks.spans.rows import QuestionExample
from albert_tf.tasks.splits import EncodedSplit
from albert_tf.tasks.task import find_task
from albert_tf.tasks.texts.kind import LABEL_SETS
from albert_tf.tasks.texts.rows import TextExample
from albert_tf.tasks.words.rows import WordsExample
from data_prep.errors import InputError

LN3 = math.log(3.0)  # of logits 0 and ln 3, the probabilities are 1/4 and 3/4


def predictions(task: str, examples, outputs, *, split="dev", features=(), labels=(), thresholds=()):
    model = SimpleNamespace(labels=labels, thresholds=thresholds)
    rows = [{"output": np.array(output, np.float32)} for output in outputs]
    return find_task(task).kind.predictions(
        EncodedSplit(split, examples, features or [{}] * len(rows)), rows, model
    )


def assert_equal(found: Probabilities, ids, classes, values, labels, groups=None, thresholds=()):
    """The ids are those of the examples, in their order."""
    assert (found.ids, found.classes, found.labels) == (ids, classes, labels)
    assert (found.groups, found.thresholds) == (groups, thresholds)
    assert len(found.values) == len(values)
    for ours, expected in zip(found.values, values, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("task", "split", "groups"),
    [
        ("mnli", "dev_matched", ("m", "m")),
        ("mnli", "dev_mismatched", ("mm", "mm")),
        ("classification", "dev", None),
    ],
)
def test_classes(task, split, groups):
    """Large logits do not overflow."""
    examples = [TextExample("7", "a", label="x"), TextExample("3", "b", label="z")]
    outputs, labels = [[0, LN3, -math.inf], [1e4, 0, 0]], ("x", "y", "z")
    found = predictions(task, examples, outputs, split=split, labels=labels)
    assert_equal(found, ("7", "3"), labels, [[0.25, 0.75, 0], [1, 0, 0]], ("x", "z"), groups)
    examples[1] = TextExample("3", "b")
    assert predictions(task, examples, outputs, split=split, labels=labels).labels is None


def test_numbers():
    found = predictions("regression", [TextExample("0", "a", label=2.0)], [1.5])
    assert_equal(found, ("0",), (), [1.5], (2.0,))
    assert found.predictions() == [1.5]


def test_several_labels_are_independent():
    labels, thresholds = ("x", "y", "z"), (0.5, 0.2, 0.1)
    examples = [TextExample("0", "a", label=("x",)), TextExample("1", "b", label=())]
    outputs = [[LN3, -LN3, -1e4], [-LN3, 1e4, 0]]
    found = predictions("multi-label-classification", examples, outputs, labels=labels, thresholds=thresholds)
    values = [[0.75, 0.25, 0], [0.25, 1, 0.5]]
    assert_equal(found, ("0", "1"), labels, values, (("x",), ()), thresholds=thresholds)
    assert found.predictions() == [["x", "y"], ["y", "z"]]


def test_thresholds_are_the_best_for_all_parts_together():
    """In the first part alone, 0.2 to 0.4 separate the examples; in both, 0.4 to 0.6."""
    first, second = (
        Probabilities(("0", "1"), ("x",), (np.array([high]), np.array([low])), (("x",), ()))
        for high, low in ((0.6, 0.2), (0.9, 0.4))
    )
    parts, thresholds = LABEL_SETS.with_best_thresholds([first, second])
    assert thresholds == pytest.approx((0.5,))
    assert [part.thresholds for part in parts] == [thresholds] * 2


def test_options():
    """Of questions with different numbers of them; the groups are those of RACE, where all have one."""
    four = ChoiceExample("a", "p", "q", ("1", "2", "3", "4"), 1, "high")
    two = ChoiceExample("b", "p", "q", ("1", "2"), 0, "middle")
    outputs = [[0, LN3, -math.inf, -math.inf], [LN3, 0]]
    found = predictions("race", [four, two], outputs)
    values = [[0.25, 0.75, 0, 0], [0.75, 0.25]]
    assert_equal(found, ("a", "b"), ("A", "B", "C", "D"), values, ("B", "A"), ("high", "middle"))
    own = ChoiceExample("b", "p", "q", ("1", "2"))
    found = predictions("multiple-choice", [four, own], outputs)
    assert_equal(found, ("a", "b"), ("A", "B", "C", "D"), values, None)


def test_words():
    """Only their first pieces count; those that do not fit into the sequence are outside entities."""
    labels = ("B-X", "O", "I-X")
    example = WordsExample("0", ("a", "bc", "d", "e"), ("B-X", "I-X", "O", "O"))
    nothing = [9, 0, 0]
    outputs = [nothing, [LN3, 0, -math.inf], [0, -math.inf, LN3], nothing, [-math.inf, 0, LN3], nothing]
    features = [{"word_index": np.array([-1, 0, 1, -1, 2, -1])}]
    found = predictions("token-classification", [example], [outputs], features=features, labels=labels)
    values = [[0.75, 0.25, 0], [0.25, 0, 0.75], [0, 0.25, 0.75], [0, 1, 0]]
    assert_equal(found, ("0",), labels, [values], (example.labels,))
    assert found.predictions() == [["B-X", "I-X", "I-X", "O"]]
    found = predictions(
        "token-classification", [example], [outputs], features=features, labels=("X", "Y", "Z")
    )
    np.testing.assert_allclose(found.values[0][3], [1, 0, 0])


def test_the_loss_is_the_mean_over_the_weights_of_all_rows():
    examples = [TextExample(str(i), "a", label="x") for i in range(3)]
    found = predictions("classification", examples, [[1, 0]] * 3, labels=("x", "y"))
    split, task = EncodedSplit("dev", examples, ()), find_task("classification")
    rows = [{"loss": np.float32(loss), "loss_weight": np.float32(w)} for loss, w in ((2, 1), (0, 0), (4, 3))]
    metrics = task.kind.measure_with_loss(
        task, [split], [found], 2 * rows
    )  # several windows may be one example's
    assert (metrics["loss"], metrics["accuracy"], metrics["examples"]) == (1.5, 1.0, 3)
    assert "loss" not in task.kind.measure_with_loss(task, [split], [found], [{}] * 3)


def squad_metrics(task: str, *questions: QuestionExample) -> dict[str, float]:
    """The metrics if every question is answered with "c", with null odds from 1 upwards."""
    n_best = {question.id: [Answer("c", 0, 1.0, 0.0, 0.0)] for question in questions}
    null_odds = {question.id: float(i) for i, question in enumerate(questions, start=1)}
    split = EncodedSplit("dev", questions, [])
    answerable = find_task(task).answerable
    predictions = SquadPredictions(n_best, null_odds if answerable else None)
    return find_task(task).kind.measure(find_task(task), [split], [predictions])


def test_questions_that_all_have_no_answer_can_be_scored():
    metrics = squad_metrics("squad2.0", QuestionExample("1", "q", "c", is_impossible=True))
    assert metrics["best_f1"] == metrics["NoAns_f1"] == 100.0


def test_answers_alone_decide_whether_a_question_has_one():
    """As in the official script, and so in `albert evaluate --predictions`."""
    question = QuestionExample("1", "q", "b c", ("b",), (0,), is_impossible=True)
    metrics = squad_metrics("squad2.0", question)
    assert (metrics["HasAns_f1"], metrics["best_f1"]) == (0.0, 0.0)
    assert not any(name.startswith("NoAns") for name in metrics)
    assert squad_metrics("squad1.1", question) == {"exact_match": 0.0, "f1": 0.0}


def test_the_threshold_that_never_answers_is_kept_if_it_is_the_best():
    """The official script's is 0 then, which would answer the questions with lower null odds."""
    unanswerable = [QuestionExample(str(i), "q", "c", is_impossible=True) for i in range(2)]
    metrics = squad_metrics("squad2.0", QuestionExample("2", "q", "b c", ("b",), (0,)), *unanswerable)
    assert metrics["best_f1_thresh"] == 0.0
    assert null_threshold_of({"dev": metrics}) < 1.0  # the least null odds


def test_the_best_weights_of_squad2_are_those_with_the_best_threshold():
    """Its F1 at even odds depends on how the answerability is calibrated, which the threshold corrects."""
    names = ("squad2.0", "squad1.1", "race", "cola", "sts-b")
    assert [find_task(name).main_metric for name in names] == [
        "best_f1", "f1", "accuracy", "matthews", "pearson"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("dev", "expected"),
    [({"threshold": -1.5, "best_f1_thresh": 0.0}, -1.5), ({"best_f1_thresh": 2}, 2), ({}, EVEN_ODDS)],
)
def test_the_threshold_of_results(dev, expected):
    assert null_threshold_of({"dev": dev}) == expected


def test_a_threshold_that_is_not_a_number():
    with pytest.raises(InputError, match="`threshold` in results.json must be a number. Received '1'"):
        null_threshold_of({"dev": {"threshold": "1"}})


def test_questions_whose_answers_are_unknown_have_no_metrics():
    for task in ("squad1.1", "squad2.0"):
        assert squad_metrics(task, QuestionExample("1", "q", "c")) == {}


def test_own_questions_without_an_answer_count_as_in_squad2():
    """A model that always answers has them all wrong; `albert evaluate --predictions` says the same."""
    questions = QuestionExample("1", "q", "c", ("c",), (0,)), QuestionExample("2", "q", "c")
    assert squad_metrics("question-answering", *questions) == {
        "exact": 50.0, "f1": 50.0, "HasAns_exact": 100.0, "HasAns_f1": 100.0, "NoAns_exact": 0.0, "NoAns_f1": 0.0
    }  # fmt: skip
    assert squad_metrics("question-answering", questions[0]) == {"exact_match": 100.0, "f1": 100.0}
