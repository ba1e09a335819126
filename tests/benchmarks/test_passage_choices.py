"""Questions with options made from books."""

import json

import pytest

from albert_tf.errors import InputError
from benchmarks.passage_choices import OPTIONS, ChoiceSettings, main, question_on, thinned


def write_books(folder, count, sentences=200):
    """Every word tells its book, sentence and place: 3_17_4."""
    for book in range(count):
        lines = (" ".join(f"W{book}_{i}_{j}" for j in range(12)) + "." for i in range(sentences))
        (folder / f"{book}.md").write_text("\n\n".join(lines), encoding="utf-8")
    return str(folder / "*.md")


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_right_option_goes_on_with_the_question(tmp_path):
    books = write_books(tmp_path, 3)
    settings = ChoiceSettings(books, tmp_path / "out", questions=100, dev_questions=20)
    assert main(settings) == {"train": 100, "dev": 20}
    inside = 0
    for row in read(tmp_path / "out" / "train.jsonl"):
        passage = set(row["passage"].split())
        assert len(row["options"]) == OPTIONS
        assert len({len(option.split()) for option in row["options"]}) == 1, "no length gives it away"
        sentence = row["question"].split()[0].split("_")[1]
        chosen = [option.split()[0].split("_")[1] for option in row["options"]]
        assert [i for i, other in enumerate(chosen) if other == sentence] == [row["label"]]
        present = [set(option.split()) <= passage for option in row["options"]]
        assert present[row["label"]]
        inside += sum(present) - 1
    assert 0 < inside < 300, "wrong options of the passage and of elsewhere"


def test_books_to_train_on_and_to_measure_with_are_apart(tmp_path):
    settings = ChoiceSettings(write_books(tmp_path, 3), tmp_path / "out", questions=60, dev_questions=20)
    main(settings)
    books = {
        part: {row["passage"].split("_")[0] for row in read(tmp_path / "out" / f"{part}.jsonl")}
        for part in ("train", "dev")
    }
    assert books == {"train": {"W0", "W1"}, "dev": {"W2"}}
    again = ChoiceSettings(settings.input_file, tmp_path / "again", questions=60, dev_questions=20)
    main(again)
    assert read(tmp_path / "again" / "train.jsonl") == read(tmp_path / "out" / "train.jsonl")


def test_words_are_dropped():
    class Generator:
        def __init__(self, draws):
            self.draws = iter(draws)

        def random(self):
            return next(self.draws)

    assert thinned(["a", "b", "c"], 0.3, Generator([0.1, 0.3, 0.9])) == ["b", "c"]
    assert thinned(["a", "b"], 0.3, Generator([0.1, 0.2])) == ["a"]


def test_labels_follow_the_order(tmp_path):
    import random

    chosen = [[f"{i}{letter}" for letter in "abcdefgh"] for i in range(OPTIONS)]
    rows = [question_on("p", chosen, 0.0, random.Random(seed)) for seed in range(20)]
    assert {row["label"] for row in rows} == set(range(OPTIONS))
    for row in rows:
        assert row["question"] == "0a 0b 0c 0d"
        assert row["options"][row["label"]] == "0e 0f 0g 0h"


def test_what_cannot_be_made(tmp_path):
    with pytest.raises(InputError, match="two books at least. Received 1"):
        main(ChoiceSettings(write_books(tmp_path, 1), tmp_path / "out"))
    with pytest.raises(InputError, match="a share below 1. Received 1.0"):
        main(ChoiceSettings(write_books(tmp_path, 2), tmp_path / "out", dropped=1.0))
    assert not (tmp_path / "out").exists()
