"""The splits and classes of a run, and their batches."""

import json
from pathlib import Path

import numpy as np
import pytest

from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.finetuning.task_data import (
    classes_of,
    read_split,
    with_class_weights,
)
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.splits import EncodedSplit
from albert_tf.tasks.task import find_task
from albert_tf.tasks.task_batches import BatchOrder, bucketed_batches
from albert_tf.tasks.texts.rows import TextExample
from data_prep.errors import InputError


def write_tsv(path: Path, header: str, *rows: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(line.replace(" | ", "\t") + "\n" for line in (header, *rows)))


@pytest.fixture
def glue(tmp_path) -> Path:
    """MNLI's test sets, one row each."""
    for name in ("test_matched", "test_mismatched"):
        write_tsv(tmp_path / "MNLI" / f"{name}.tsv", "index | sentence1 | sentence2", f"0 | {name} | b")
    return tmp_path


def names_of(glue: Path) -> list[str]:
    settings = FinetuningFlags("mnli", "run", str(glue), do_predict=True)
    return [name for name, _ in read_split(find_task("mnli"), settings, "test", Problems())]


def test_mnli_predicts_the_diagnostic_set_if_present(glue):
    assert names_of(glue) == ["test_matched", "test_mismatched"]
    write_tsv(glue / "diagnostic" / "diagnostic.tsv", "index | sentence1 | sentence2", "0 | a | b")
    assert names_of(glue) == ["test_matched", "test_mismatched", "test"]


def test_a_file_replaces_the_folder(glue):
    settings = FinetuningFlags(
        "mnli", "run", str(glue), test_file=str(glue / "MNLI" / "test_matched.tsv"), do_predict=True
    )
    ((name, (example,)),) = read_split(find_task("mnli"), settings, "test", Problems())
    assert (name, example.text_a) == ("test", "test_matched")


def test_one_kind_of_school(tmp_path):
    for school in ("middle", "high"):
        folder = tmp_path / "dev" / school
        folder.mkdir(parents=True)
        passage = {"article": "a", "questions": ["b"], "options": [["c", "d", "e", "f"]], "answers": ["A"]}
        (folder / "1.txt").write_text(json.dumps(passage))
    for flags, expected in (
        ({}, ["middle", "high"]),
        ({"high_only": True}, ["high"]),
        ({"middle_only": True}, ["middle"]),
    ):
        settings = FinetuningFlags("race", "run", str(tmp_path), do_eval=True, **flags)
        ((_, examples),) = read_split(find_task("race"), settings, "dev", Problems())
        assert [example.group for example in examples] == expected
    settings = FinetuningFlags("race", "run", str(tmp_path / "dev" / "middle"), do_eval=True, high_only=True)
    with pytest.raises(InputError, match="--high_only needs passages from high schools. Received .* without"):
        read_split(find_task("race"), settings, "dev", Problems())


def test_classes():
    examples = [TextExample(str(i), "text", label=label) for i, label in enumerate(("10", "9", "10"))]
    assert classes_of(find_task("classification"), examples) == ("9", "10")
    assert classes_of(find_task("rte"), examples) == ("entailment", "not_entailment")
    assert classes_of(find_task("regression"), examples) == ()
    with pytest.raises(InputError, match="needs examples of two classes or more. Received 9 in the training"):
        classes_of(find_task("classification"), examples[1:2])


def test_class_weights():
    ids = np.ones(3, np.int32)
    texts = [{"input_ids": ids, "label": np.int32(label)} for label in (0, 0, 0, 1)]
    label, counted = np.array([0, 1, 0], np.int32), np.array([0, 1, 1], np.float32)
    words = [{"input_ids": ids, "label": label, "label_weights": counted}]
    classification, labels = find_task("classification"), ("a", "b", "c")

    def weights(flag, features=texts, task=classification):
        return with_class_weights(EncodedSplit("train", (), features), task, flag, labels).features

    assert [row["class_weight"] for row in weights("b:5")] == [1, 1, 1, 5]
    assert [row["class_weight"] for row in weights("balanced")] == pytest.approx([2 / 3] * 3 + [2])
    (row,) = weights("a:2,b:0.5", words, find_task("token-classification"))
    assert row["label_weights"].tolist() == [0, 0.5, 2]
    (batch,) = bucketed_batches(weights("b:5"), 5, BatchOrder(None), fill_remainder=True).as_numpy_iterator()
    assert batch["sample_weight"].tolist() == [1, 1, 1, 5, 0]
    assert "class_weight" not in batch
    for task in ("regression", "multi-label-classification"):
        with pytest.raises(InputError, match=f"one class for each text or word. Received --task={task}"):
            weights("balanced", task=find_task(task))
