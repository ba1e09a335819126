"""Words to look up and questions with options, made from books."""

import json
import random

import pytest

from albert_tf.errors import InputError
from benchmarks.lookup_data import OPTIONS, LookupSettings, main, question_on, seen_words, thinned


def write_books(folder, count, sentences=200):
    """Every word tells its book, sentence and place: W3_17_4."""
    for book in range(count):
        lines = (" ".join(f"W{book}_{i}_{j}" for j in range(12)) + "." for i in range(sentences))
        (folder / f"{book}.md").write_text("\n\n".join(lines), encoding="utf-8")
    return str(folder / "*.md")


def make(folder, count=3, **changes):
    """The data of `count` books, few of each kind."""
    sizes = {"short": 40, "long": 30, "choices": 100, "dev": 20, **changes}
    settings = LookupSettings(write_books(folder, count), folder / "out", **sizes)
    return main(settings), settings.output_dir


def questions(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_right_option_goes_on_with_the_question(tmp_path):
    counts, output = make(tmp_path)
    assert counts["choices"] == {"train": 100, "dev": 20}
    inside = 0
    for row in questions(output / "choices" / "train.jsonl"):
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


@pytest.mark.parametrize(("name", "asked"), [("short", 3), ("long", 12)])
def test_marked_words_were_there(tmp_path, name, asked):
    counts, output = make(tmp_path)
    examples = (output / name / "train.conll").read_text(encoding="utf-8").split("\n\n")[:-1]
    assert len(examples) == counts[name]["train"]
    for example in examples:
        rows = [line.split() for line in example.splitlines()]
        place = rows.index(["?", "O"])
        earlier = {word.rstrip(".").lower() for word, _ in rows[:place]}
        assert all(label == "O" for _, label in rows[:place])
        assert len(rows) - place - 1 == 2 * asked
        assert sum(label == "B-SEEN" for _, label in rows) == asked
        for word, label in rows[place + 1 :]:
            assert (word in earlier) == (label == "B-SEEN")


def test_a_book_of_one_word():
    pairs = seen_words(["Oh"] * 5, (3, 9, 2), random.Random(0))
    assert pairs.index(("?", "O")) in (3, 4, 5)
    assert pairs[-2:] == [("oh", "B-SEEN")] * 2


def test_books_to_train_on_and_to_measure_with_are_apart(tmp_path):
    _, output = make(tmp_path)
    books = {
        part: {row["passage"].split("_")[0] for row in questions(output / "choices" / f"{part}.jsonl")}
        for part in ("train", "dev")
    }
    assert books == {"train": {"W0", "W1"}, "dev": {"W2"}}
    (tmp_path / "again").mkdir()
    _, again = make(tmp_path / "again")
    for file in output.glob("*/*"):
        assert (again / file.relative_to(output)).read_bytes() == file.read_bytes()


def test_words_are_dropped():
    class Generator:
        def __init__(self, draws):
            self.draws = iter(draws)

        def random(self):
            return next(self.draws)

    assert thinned(["a", "b", "c"], 0.3, Generator([0.1, 0.3, 0.9])) == ["b", "c"]
    assert thinned(["a", "b"], 0.3, Generator([0.1, 0.2])) == ["a"]


def test_labels_follow_the_order():
    chosen = [[f"{i}{letter}" for letter in "abcdefgh"] for i in range(OPTIONS)]
    rows = [question_on("p", chosen, 0.0, random.Random(seed)) for seed in range(20)]
    assert {row["label"] for row in rows} == set(range(OPTIONS))
    for row in rows:
        assert row["question"] == "0a 0b 0c 0d"
        assert row["options"][row["label"]] == "0e 0f 0g 0h"


def test_what_cannot_be_made(tmp_path):
    with pytest.raises(InputError, match="two books at least. Received 1"):
        make(tmp_path, count=1)
    with pytest.raises(InputError, match="a share below 1. Received 1.0"):
        make(tmp_path, dropped=1.0)
    assert not (tmp_path / "out").exists()
