"""Predictions in the forms of benchmarks; errors name the line or id."""

import numpy as np
import pytest

from albert_tf.tasks.prediction_files import as_tsv, read_labels, read_numbers
from albert_tf.tasks.probabilities import Probabilities
from albert_tf.tasks.spans.answer_files import read_answers, read_odds
from albert_tf.tasks.task import find_task
from data_prep.errors import InputError
from data_prep.files import write_json


def test_tables_round_trip(tmp_path):
    path = tmp_path / "RTE.tsv"
    path.write_text(as_tsv({"0": "entailment", "1": "not_entailment"}))
    assert path.read_text() == "index\tprediction\n0\tentailment\n1\tnot_entailment\n"
    assert read_labels(path, ("entailment", "not_entailment")) == {"0": "entailment", "1": "not_entailment"}
    path.write_bytes(b"\xef\xbb\xbfindex\tprediction\r\n0\tentailment\r\n")  # as Windows writes it
    assert read_labels(path) == {"0": "entailment"}
    path.write_text(as_tsv({"0": 2.5, "1": -1 / 3}))
    assert read_numbers(path) == {"0": 2.5, "1": -1 / 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with ''"),
        ("id\tlabel\n0\t1\n", "begins with 'id\\\\tlabel'"),
        ("index,prediction\n0,1\n", "begins with 'index,prediction'"),
        ("index\tprediction\n0\t1\n1\n", "x.tsv:3 is '1'"),
        ("index\tprediction\n0\t1\t2\n", "x.tsv:2"),
        ("index\tprediction\n0\t1\n\n1\t1\n", "x.tsv:3"),
        ("index\tprediction\n0\t1\n0\t1\n", "a second one for 0 at .*x.tsv:3"),
        ("index\tprediction\n0\t2\n", "one of 0, 1. Received '2' at .*x.tsv:2"),
    ],
)
def test_wrong_tables(tmp_path, text, message):
    path = tmp_path / "x.tsv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_labels(path, ("0", "1"))


@pytest.mark.parametrize("value", ["high", "nan", "inf", "", "1,5"])
def test_numbers_are_finite(tmp_path, value):
    path = tmp_path / "x.tsv"
    path.write_text(f"index\tprediction\n7\t{value}\n")
    with pytest.raises(InputError, match="finite number.*the index 7 in"):
        read_numbers(path)


def test_json_round_trip(tmp_path):
    path = tmp_path / "predictions.json"
    write_json(path, {"q1": "Denver — \u2028", "q2": ""})
    assert read_answers(path) == {"q1": "Denver — \u2028", "q2": ""}
    write_json(path, {"q1": -1.5, "q2": 3})
    assert read_odds(path) == {"q1": -1.5, "q2": 3.0}
    write_json(path, {"q1": "A", "q2": "D"})
    assert read_letters(path, "race") == {"q1": "A", "q2": "D"}


def read_letters(path, task="multiple-choice"):
    return find_task(task).kind.read_predictions(find_task(task), path)


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_answers, "{", "must be JSON"),
        (read_answers, "[" * 100_000, "must be JSON"),
        (read_answers, "[]", "holds a list"),
        (read_answers, '{"a": 1}', "must be a string. Received 1 for a in"),
        (read_answers, '{"a": null}', "must be a string"),
        (read_answers, '{"a": {"b": ""}}', "must be a string"),
        (read_answers, '{"a": "x", "b": "y", "a": "z"}', "1 ids twice, first a"),
        (read_odds, '{"a": "x"}', "finite number is needed. Received 'x' for a"),
        (read_odds, '{"a": NaN}', "finite number"),
        (read_odds, '{"a": true}', "finite number"),
        (read_odds, '{"a": [1]}', "finite number"),
        (read_letters, '{"a": "AB"}', "letter from A to Z"),
        (read_letters, '{"a": 0}', "letter from A to Z"),
        (read_letters, '{"a": ""}', "letter from A to Z"),
    ],
)
def test_wrong_json(tmp_path, read, text, message):
    path = tmp_path / "predictions.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read(path)


def test_letters_are_limited_to_the_options(tmp_path):
    path = tmp_path / "predictions.json"
    path.write_text('{"a": "E"}')
    with pytest.raises(InputError, match="from A to D"):
        read_letters(path, "race")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="must exist and be readable"):
        read_labels(tmp_path)
    message = "^The file [^:]*nowhere must exist and be readable. Received: No such file or directory.$"
    with pytest.raises(InputError, match=message):  # once
        read_answers(tmp_path / "nowhere")
    path = tmp_path / "x"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        read_answers(path)


def test_forms_of_other_benchmarks(tmp_path):
    one_hot = tuple(np.eye(4)[number] for number in (3, 0))
    find_task("race").kind.keep(tmp_path, "race", Probabilities(("x", "y"), tuple("ABCD"), one_hot), None)
    race = tmp_path / "race_predictions.json"
    assert race.read_text() == '{\n  "x": "D",\n  "y": "A"\n}\n'
    task = find_task("token-classification")
    task.kind.keep(tmp_path, "words", Probabilities(("0",), ("O", "B-PER"), (np.eye(2)[::-1],)), None)
    assert task.kind.read_predictions(task, tmp_path / "words_predictions.json") == {"0": ["B-PER", "O"]}
