"""Strings and labels, in the forms that task models take and in others."""

import numpy as np
import pandas as pd
import pytest

from albert_tf.tasks.kinds import find_kind
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary

VOCABULARY = Vocabulary("wordpiece", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n")
CLASSES = ("bad", "good")
QUESTION = (["a"], ["b"], [["a", "b"]])


def features(kind: str, x, y=None):
    return (
        find_kind(kind)
        .preprocessor(VOCABULARY)
        .features(x, y, CLASSES if kind.endswith("classification") else ())
    )


@pytest.mark.parametrize("label", ["good", b"good", 1, 1.0])
def test_a_class_as_name_or_number(label):
    (found,) = features("classification", ["a"], [label])
    assert found["label"] == 1
    (found,) = features("token_classification", [["a"]], [[label]])
    assert found["label"].max() == 1


def test_a_class_that_the_number_of_another_names():
    """Numbers are names if all names are numbers, as of stars from 1 to 5; of other names they could be either."""
    preprocessor, stars = find_kind("classification").preprocessor(VOCABULARY), tuple("12345")
    for labels in ([1, 5], ["1", "5"], np.array([1.0, 5.0]), ["1.0", "5.0"]):
        assert [found["label"] for found in preprocessor.features(["a", "b"], labels, stars)] == [0, 4]
    with pytest.raises(InputError, match="must be one of 1, 2, 3, 4, 5. Received 0"):
        preprocessor.features(["a"], [0], stars)
    with pytest.raises(
        InputError, match="Received 1, which is the name of a class and the number of another one, other"
    ):
        preprocessor.features(["a"], [1], ("1", "other"))
    assert preprocessor.features(["a"], [1], ("0", "1"))[0]["label"] == 1


def test_truth_as_a_class():
    preprocessor = find_kind("classification").preprocessor(VOCABULARY)
    for classes, label, number in (
        (("True", "False"), True, 0),
        (("false", "true"), "True", 1),
        (CLASSES, True, 1),
    ):
        assert preprocessor.features(["a"], [label], classes)[0]["label"] == number


@pytest.mark.parametrize("label", [1, np.float32(1), "1", "B", "b", b"b"])
def test_an_option_as_number_letter_or_text(label):
    (found,) = features("multiple_choice", QUESTION, [label])
    assert found["label"] == 1


NAN, CLASS = float("nan"), "one of bad, good, or its number from 0 to 1. Received "
OPTION = "one of its 2 options, from 0, its letter, from A, or its text. Received "
REFUSED = [
    ("classification", ["a", "b"], ["good", "huge"], f"{CLASS}'huge'. It is number 1"),
    ("classification", ["a"], [NAN], f"{CLASS}nan"),
    ("classification", ["a"], [0.5], f"{CLASS}0.5"),
    ("classification", ["a"], pd.Series([None], dtype="string"), f"{CLASS}<NA>"),
    ("token_classification", [["a"]], [[pd.NA]], f"{CLASS}<NA>"),
    ("token_classification", [["a"], ["b"]], [["bad"], ["huge"]], f"{CLASS}'huge'. It is number 1"),
    ("token_classification", [["a"]], ["bad"], "The labels of a sentence must be a list. Received 'bad'"),
    ("token_classification", [["a", "b"]], [["bad"]], "2 words and 1 labels in number 0"),
    ("token_classification", [["a"]], [["bad"]] * 2, "list of labels for each text. Received 2 lists and 1 texts"),
    ("multi_label_classification", ["a"], [None], "must be a list of names.* Received None"),
    ("multi_label_classification", ["a"], ["bad"], "or 0 or 1 for each of bad, good. Received 'bad'"),
    ("multi_label_classification", ["a"], [[0, 2]], r"or 0 or 1 for each of bad, good. Received \[0, 2\]"),
    ("multi_label_classification", ["a"], [["figs"]], "one of bad, good. Received 'figs'"),
    ("multi_label_classification", ["a", "b"], [["bad"]], "Received 1 lists and 2 texts"),
    ("multiple_choice", QUESTION, [2], f"{OPTION}2"),
    ("multiple_choice", QUESTION, ["C"], f"{OPTION}'C'"),
    ("multiple_choice", tuple(2 * part for part in QUESTION), [0, NAN], f"{OPTION}nan. It is number 1"),
    ("regression", ["a"], ["good"], "must be finite numbers. Received 'good'"),
    ("regression", ["a", "b"], [1, float("inf")], "Received inf. It is number 1, counted from 0"),
    ("question_answering", (["a"], ["b"]), (["b"], [0.5]), "must be a whole number. Received 0.5"),
    ("question_answering", (["a"], ["b"]), (["a"], [0]), "in number 0, 'a' at 0; it occurs no times"),
    ("question_answering", (["a"], ["b b"]), ["b"], "'b' without a position; it occurs 2 times"),
    ("question_answering", (["a"], ["b b"]), (["b"], [7]), "'b' at 7; it occurs 2 times"),
    ("question_answering", (["a"], ["b"]), (["b"] * 2, [0] * 2), "the same length. Received 1, 2"),
    ("question_answering", ["a"], None, "takes 2 columns"),
    ("classification", (["a", "b"], ["a"]), None, "columns must have the same length. Received 1, 2"),
    ("classification", ["a", "b", NAN], ["bad"] * 3, "A text must be a string. Received nan in number 2"),
    ("classification", [("a", "b"), ("b", "a")], None, r"\('a', 'b'\) in number 0. Pairs are given"),
    ("classification", "text", None, "must be a list of strings. Received 'text'"),
    ("classification", np.array("text"), None, "must be a list of strings. Received 'text'"),
    ("token_classification", ["a b"], None, "must be a list of strings. Received 'a b'"),
    ("multiple_choice", (["a"], ["b"], ["a b"]), None, "must be a list of strings. Received 'a b'"),
    ("multiple_choice", (None, ["a"], [["a", "b"]]), None, "A column must be a list. Received None"),
    ("classification", ["a", "b"], np.eye(2), r"4 labels and 2 texts; of one-hot rows .*`y.argmax\(axis=1\)`"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "x", "y", "message"), REFUSED)
def test_other_forms_are_refused(kind, x, y, message):
    with pytest.raises(InputError, match=message):
        features(kind, x, y)


@pytest.mark.parametrize("starts", [([2, 0],), ([None, 0],), ([0, None],), ([7, 7],), ()])
def test_answers_are_where_they_occur(starts):
    """At their position, or at their only occurrence."""
    x, answers = (["a", "a"], ["b a", "b a a"]), ["a", "b"]
    found = features("question_answering", x, (answers, *starts) if starts else answers)
    assert [example["start_positions"] for example in found] == [4, 3]


@pytest.mark.parametrize(
    ("kind", "x", "y"),
    [
        ("classification", ["a", "b a"], ["good", "bad"]),
        ("classification", (["a", "b"], ["b b", "a"]), [1, 0]),
        ("regression", ["a", "b a"], [0.5, 1.0]),
        ("multi_label_classification", ["a", "b a"], [["good"], []]),
        ("token_classification", [["a", "b"], ["a"]], [["good", "bad"], ["bad"]]),
        ("multiple_choice", (["a", "b"], ["b", "a"], [["a", "b"], ["b", "a"]]), ["A", "B"]),
        ("question_answering", (["a", "b"], ["b a", "a"]), (["a", ""], [2, 0])),
    ],
)
def test_columns_of_a_table(kind, x, y):
    """As pandas has them after rows were shuffled: the index has other numbers."""

    def column(values):
        return pd.Series(values, index=range(len(values), 0, -1))

    def columns(values):
        return tuple(map(column, values)) if isinstance(values, tuple) else column(values)

    for expected, found in zip(features(kind, x, y), features(kind, columns(x), columns(y)), strict=True):
        np.testing.assert_equal(found, expected)


def test_tables_for_several_columns():
    """Of labels as 0 and 1, and of the options of a question."""
    labels = pd.DataFrame({"bad": [0, 1], "good": [1, 1]})
    expected = features("multi_label_classification", ["a", "b"], labels.to_numpy())
    names = [["good"], ["bad", "good"]]
    for same in (names, labels, labels[["good", "bad"]], pd.DataFrame(labels.to_numpy())):
        np.testing.assert_equal(features("multi_label_classification", ["a", "b"], same), expected)
    for other in (labels.rename(columns={"bad": "worse"}), labels[["good", "good"]], labels[["good"]]):
        with pytest.raises(InputError, match="must have the columns bad, good. Received"):
            features("multi_label_classification", ["a", "b"], other)
    options = pd.DataFrame({"first": ["a"], "second": ["b"]})
    expected = features("multiple_choice", QUESTION, [1])
    np.testing.assert_equal(features("multiple_choice", (*QUESTION[:2], options), [1]), expected)
    with pytest.raises(InputError, match=r"A text must be a string. Received \['a'\]"):
        features("classification", pd.DataFrame({"text": ["a"]}))
