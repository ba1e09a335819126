"""RACE's files, one passage in each."""

import json

import pytest

from albert_tf.tasks.choice.rows import ChoiceExample
from data_prep.errors import InputError
from tests.albert_tf.tasks.reading import read

OPTIONS = ["Rome", "Bern", "Oslo", "Kiev"]


def passage(number, group="middle", **changes):
    return {
        "id": f"{group}{number}.txt",
        "article": "Ann went away.",
        "questions": ["Ann is in _ .", "Where is Ann?"],
        "options": [OPTIONS, OPTIONS],
        "answers": ["B", "D"],
        **changes,
    }


def write(folder, split, group, number, content):
    path = folder / split / group / f"{number}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_both_schools_in_the_order_of_their_passages(tmp_path):
    for group, number in (("high", 7), ("middle", 10), ("middle", 9)):
        write(tmp_path / "RACE", "dev", group, number, passage(number, group))
    examples, problems = read("race", tmp_path / "RACE", "dev")
    assert examples[0] == ChoiceExample(
        "middle9.txt-0", "Ann went away.", "Ann is in _ .", tuple(OPTIONS), 1, "middle"
    )
    files = ("middle9", "middle10", "high7")
    assert [example.id for example in examples] == [f"{file}.txt-{i}" for file in files for i in (0, 1)]
    assert [example.label for example in examples] == [1, 3] * 3
    assert problems.lines() == []
    assert read("race", tmp_path, "dev")[0] == examples
    assert read("race", tmp_path / "RACE" / "dev", "dev")[0] == examples
    assert read("race", tmp_path / "RACE" / "dev" / "high", "dev")[0] == examples[4:]
    assert read("race", tmp_path / "RACE" / "dev" / "high" / "7.txt", "dev")[0] == examples[4:]


def test_all_passages_of_a_school_in_one_file(tmp_path):
    """As the original reads them; the single files beside it are the same passages."""
    for group, number in (("high", 7), ("middle", 10), ("middle", 9)):
        write(tmp_path / "single", "dev", group, number, passage(number, group))
    expected, _ = read("race", tmp_path / "single", "dev")
    write(tmp_path / "all", "dev", "middle", "all", "".join(json.dumps(passage(i)) + "\n" for i in (9, 10)))
    write(tmp_path / "all", "dev", "high", "all", json.dumps(passage(7, "high")))
    write(tmp_path / "all", "dev", "high", 7, passage(7, "high"))
    examples, problems = read("race", tmp_path / "all", "dev")
    assert examples == expected
    assert problems.lines() == []
    write(tmp_path / "all", "dev", "high", "all", "{\n" + json.dumps(passage(7, "high", id=None)))
    examples, problems = read("race", tmp_path / "all" / "dev" / "high", "dev")
    assert [example.id for example in examples] == ["high2-0", "high2-1"]
    assert "all.txt:1" in problems.lines()[0]


def test_test_sets_may_lack_answers(tmp_path):
    content = passage(1)
    del content["answers"]
    write(tmp_path, "test", "middle", 1, content)
    examples, problems = read("race", tmp_path, "test")
    assert [example.label for example in examples] == [None, None]
    assert problems.lines() == []


def test_unusable_passages_are_reported(tmp_path):
    good = write(tmp_path, "train", "high", 1, passage(1))
    write(tmp_path, "train", "high", 2, "{")
    write(tmp_path, "train", "high", 3, passage(3, answers=["B"]))
    write(tmp_path, "train", "high", 4, {"questions": []})
    write(tmp_path, "train", "high", 5, passage(5, answers=["E", None]))
    write(tmp_path, "train", "high", 6, passage(6, options=[OPTIONS[:3], [*OPTIONS[:3], " "]]))
    write(tmp_path, "train", "high", 7, passage(7, questions=[3, "Where?"]))
    (good.parent / "8.txt").write_bytes(b"\xff")
    examples, problems = read("race", tmp_path, "train")
    assert [example.id for example in examples] == ["middle1.txt-0", "middle1.txt-1", "middle7.txt-1"]
    assert dict(problems.counts) == {
        "passage that is not JSON, left out": 1,
        "passage that is not in RACE's form, left out": 2,
        "label outside the set, left out": 2,
        "question without four options, left out": 1,
        "empty text, left out": 1,
        "question that is not in RACE's form, left out": 1,
        "passage that cannot be read, left out": 1,
    }
    assert f"{good.parent}/5.txt, question 0: received 'E', allowed A, B, C, D" in problems.lines()[2]


def test_no_passages(tmp_path):
    with pytest.raises(InputError, match="There are none; name the folder RACE"):
        read("race", tmp_path, "train")
