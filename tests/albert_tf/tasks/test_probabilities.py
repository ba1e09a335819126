"""A run's probabilities are read back as they were written."""

import json

import numpy as np
import pytest

from albert_tf.tasks.probabilities import (
    Probabilities,
    probabilities_file,
    read_probabilities,
    write_probabilities,
)
from data_prep.errors import InputError

CASES = [
    Probabilities(("a", "b"), ("0", "1"), (np.array([0.9, 0.1]), np.array([0.3, 0.7])), ("0", "0")),
    Probabilities(
        ("a", "b"), ("A", "B"), (np.array([0.9, 0.1]), np.array([0.3, 0.7])), None, ("high", "middle")
    ),
    Probabilities(("a", "b"), (), (np.array(2.5), np.array(-1 / 3)), (2.4, 0.0)),
    Probabilities(
        ("0", "1"),
        ("O", "B-Ä\u2028", "I-Ä\u2028"),
        (np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]), np.array([[1.0, 0.0, 0.0]])),
        (("B-Ä\u2028", "O"), ("O",)),
    ),
    Probabilities(
        ("a", "b"),
        ("x", "y"),
        (np.array([0.5, 0.9]), np.array([0.1, 0.2])),
        (("x", "y"), ()),
        thresholds=(0.5, 0.25),
    ),
]


@pytest.mark.parametrize("written", CASES)
def test_round_trip(tmp_path, written):
    path = probabilities_file(tmp_path, "dev")
    assert path.name == "dev_probabilities.jsonl"
    write_probabilities(path, written)
    read = read_probabilities(path)
    for name in ("ids", "classes", "labels", "groups", "thresholds"):
        assert getattr(read, name) == getattr(written, name)
    for received, expected in zip(read.values, written.values, strict=True):
        np.testing.assert_array_equal(received, expected)


def test_predictions_are_the_most_probable():
    assert CASES[0].predictions() == ["0", "1"]
    assert CASES[2].predictions() == [2.5, -1 / 3]
    assert CASES[3].predictions() == [["B-Ä\u2028", "I-Ä\u2028"], ["O"]]


def test_several_labels_reach_their_thresholds():
    assert CASES[4].predictions() == [["x", "y"], []]


GOOD = {"id": "0", "classes": ["0", "1"], "probabilities": [0.5, 0.5]}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "3",
        json.dumps({"id": "0"}),
        json.dumps({**GOOD, "probabilities": [1.0]}),
        json.dumps({**GOOD, "probabilities": 1.0}),
        json.dumps({**GOOD, "probabilities": [[0.5, 0.5], [1.0]]}),
        json.dumps({**GOOD, "probabilities": ["x", "y"]}),
        json.dumps({**GOOD, "probabilities": [1.5, 0.5]}),
        json.dumps({**GOOD, "probabilities": [-0.5, 0.5]}),
        json.dumps({**GOOD, "probabilities": [[0.5, 0.5]], "label": ["0", "1"]}),
        json.dumps({**GOOD, "probabilities": [[0.5, 0.5]], "label": "0"}),
        json.dumps({**GOOD, "probabilities": [[0.5, 0.5]], "label": 0}),
        json.dumps({"id": "0", "score": [1.0]}),
        '{"id": "0", "score": NaN}',
    ],
)
def test_malformed_lines_are_reported_with_their_number(tmp_path, line):
    path = tmp_path / "dev_probabilities.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match="dev_probabilities.jsonl, line 2"):
        read_probabilities(path)


def test_missing_empty_and_mixed_files(tmp_path):
    path = tmp_path / "dev_probabilities.jsonl"
    with pytest.raises(InputError, match="No such file"):
        read_probabilities(path)
    path.write_text("")
    with pytest.raises(InputError, match="is empty"):
        read_probabilities(path)
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(InputError, match="must be UTF-8"):
        read_probabilities(path)
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "classes": ["0", "2"]}) + "\n")
    with pytest.raises(InputError, match="same classes"):
        read_probabilities(path)
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "probabilities": [[0.5, 0.5]]}) + "\n")
    with pytest.raises(InputError, match="Received .*dev_probabilities.jsonl with both"):
        read_probabilities(path)
