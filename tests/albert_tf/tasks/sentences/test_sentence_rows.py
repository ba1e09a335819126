"""Pairs, negatives, scores and classes from files, and what is said of rows that cannot be used."""

import json

import pytest

from albert_tf.tasks.columns import Columns
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.task import find_task
from data_prep.errors import InputError

TASK = find_task("embedding")


def read(path, content: str, split: str = "train", columns: Columns | None = None):
    """The texts and labels of a file, and the problems of its rows."""
    path.write_text(content)
    problems = Problems()
    examples = read_examples(TASK, path, split, problems, columns=columns)
    return [(example.texts, example.label) for example in examples], problems.lines()


def test_pairs_with_negatives(tmp_path):
    rows = [
        {"query": "q", "positive": "a", "negative_1": "b", "negative_2": "c"},
        {"query": "r", "positive": "d", "negative_1": None, "negative_2": "e"},
    ]
    found, _ = read(tmp_path / "train.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert found == [(("q", "a", "b", "c"), None), (("r", "d", "e"), None)]
    lists = {"anchor": "q", "positive": "a", "negatives": ["b", "c"]}
    assert read(tmp_path / "train.jsonl", json.dumps(lists))[0] == found[:1]
    assert read(tmp_path / "train.csv", "anchor,positive,negative\nq,a,b\n")[0] == [(("q", "a", "b"), None)]


def test_scores_and_classes(tmp_path):
    glue = 'index\tsentence1\tsentence2\tscore\n0\ta "b\tc\t2.5\n1\td\te\tmany\n'
    found, problems = read(tmp_path / "train.tsv", glue)
    assert found == [(('a "b', "c"), 2.5)]
    assert "label that is not a number" in problems[0]
    assert read(tmp_path / "train.csv", "text,label\na,1\nb,x\n")[0] == [(("a",), "1"), (("b",), "x")]
    test = "sentence1\tsentence2\na\tb\n"
    assert read(tmp_path / "test.tsv", test, "test")[0] == [(("a", "b"), None)]


def test_what_cannot_be_used(tmp_path):
    found, problems = read(tmp_path / "train.csv", "text_a,text_b\na,\nb,c\n,d\n")
    assert found == [(("b", "c"), None)]
    assert problems[0].startswith("2 rows: empty text, left out")
    with pytest.raises(InputError, match=r"two columns of texts.*has only: text;.*--dropout_pairs"):
        read(tmp_path / "train.csv", "text\na\n")


def test_a_text_and_itself(tmp_path):
    columns = Columns(is_own_pair=True)
    assert read(tmp_path / "train.csv", "text\na\nb\n", columns=columns)[0] == [
        (("a", "a"), None),
        (("b", "b"), None),
    ]
    with pytest.raises(InputError, match="two columns"):
        read(tmp_path / "dev.csv", "text\na\n", "dev", columns)


def test_beir(tmp_path):
    lines = {
        "corpus.jsonl": [{"_id": "1", "title": "Sea", "text": "Ships."}, {"_id": "2", "text": "Dogs."}],
        "queries.jsonl": [{"_id": "1", "text": "Who sails?"}, {"_id": "9", "text": "Unjudged?"}],
    }
    for name, rows in lines.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "qrels").mkdir()
    with pytest.raises(InputError, match="judgements in"):
        read_examples(TASK, tmp_path, "dev", Problems())
    judgements = "query-id\tcorpus-id\tscore\n1\t1\t2\n1\t2\t0\n1\t7\t1\n"
    (tmp_path / "qrels/test.tsv").write_text(judgements)
    problems = Problems()
    *documents, query = read_examples(TASK, tmp_path, "dev", problems)
    assert [document.texts for document in documents] == [("Sea Ships.",), ("Dogs.",)]
    assert (query.texts, query.relevant) == (("Who sails?",), {"1": 2.0})
    assert "text that the folder lacks" in problems.lines()[0]
    (tmp_path / "qrels/train.tsv").write_text(judgements)
    (pair,) = read_examples(TASK, tmp_path, "train", Problems())
    assert pair.texts == ("Who sails?", "Sea Ships.")
