"""Baselines on examples whose scores are known."""

import json

import pytest

from albert_tf.tasks.examples import ChoiceExample, QuestionExample, TextExample
from albert_tf.tasks.task import find_task
from data_prep.errors import InputError
from experiments.trivial_baselines import BaselineSettings, baseline_metrics, main


def test_the_most_frequent_class(tmp_path, capsys):
    rows = ["sentence\tlabel", *(f"text {i}\t{i % 4 == 0:d}" for i in range(8)), "\t1"]
    (tmp_path / "dev.tsv").write_text("\n".join(rows), encoding="utf-8")
    result = main(BaselineSettings("sst-2", str(tmp_path)))
    assert json.loads(capsys.readouterr().out) == result
    assert result["metrics"] == {"accuracy": 0.75}
    assert len(result["problems"]) == 1


def test_a_constant_and_shared_words():
    pairs = [("a b", "a b", 5.0), ("a b", "a c", 3.0), ("a", "b", 1.0)]
    examples = [TextExample(str(i), a, b, label) for i, (a, b, label) in enumerate(pairs)]
    result = baseline_metrics(find_task("sts-b"), examples)
    assert result["constant"] == {"pearson": 0.0, "spearman": 0.0}
    assert result["shared_words"]["spearman"] == pytest.approx(1.0)
    assert result["shared_words"]["pearson"] > 0.95


def test_the_longest_option():
    examples = [
        ChoiceExample("0", "P.", "Q?", ("a", "bbb", "cc", "d"), 1, "middle"),
        ChoiceExample("1", "P.", "Q?", ("aa", "bb", "c", "d"), 1, "high"),
    ]
    result = baseline_metrics(find_task("race"), examples)
    assert result == {"accuracy": 0.5, "accuracy_middle": 1.0, "accuracy_high": 0.0}


def test_the_first_sentence_and_no_answer():
    context = "Mr. Ash came.\nHe stayed."
    examples = [
        QuestionExample("0", "Who?", context, ("Mr. Ash came.",), (0,)),
        QuestionExample("1", "Why?", context, (), (), True),
    ]
    assert baseline_metrics(find_task("squad1.1"), examples[:1])["first_sentence"]["exact_match"] == 100.0
    result = baseline_metrics(find_task("squad2.0"), examples)
    assert result["first_sentence"]["exact"] == result["no_answer"]["exact"] == 50.0
    assert result["no_answer"]["NoAns_exact"] == 100.0


def test_labelled_words_have_none():
    with pytest.raises(InputError, match="but token classification.*Received token-classification"):
        baseline_metrics(find_task("token-classification"), [])


def test_labels_are_needed():
    examples = [TextExample(str(i), "a") for i in range(2)]
    with pytest.raises(InputError, match="needs a split with labels"):
        baseline_metrics(find_task("sst-2"), examples)
