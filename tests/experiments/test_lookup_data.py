"""Lessons in looking words up, from books."""

import json
import math
import random

import pytest

from data_prep.errors import InputError
from experiments.lookup_data import LookupSettings, bare, main, rarities, seen_words, thinned


def write_books(folder, count, sentences=200):
    """Every word consists of the numbers of its book, sentence and position: W3_17_4."""
    for book in range(count):
        lines = (" ".join(f"W{book}_{i}_{j}" for j in range(12)) + "." for i in range(sentences))
        (folder / f"{book}.md").write_text("\n\n".join(lines), encoding="utf-8")
    return str(folder / "*.md")


def make(folder, count=5, **changes):
    """A small data set from `count` books."""
    sizes = {"short": 40, "long": 30, "shared": 100, "dev": 20, "passage_words": 50, **changes}
    settings = LookupSettings(write_books(folder, count), folder / "out", **sizes)
    return main(settings), settings.output_dir


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_label_sums_the_rarities_of_shared_words(tmp_path):
    counts, output = make(tmp_path)
    assert counts["shared"] == {"train": 100, "dev": 20}
    # Each word is in one of the 3 x 48 passages of the three training books of 2,400 words.
    rarity = math.log(144)
    shares = []
    for row in rows_of(output / "shared" / "train.jsonl"):
        passage = [bare(word) for word in row["text_a"].split()]
        words = [bare(word) for word in row["text_b"].split()]
        assert len(passage) == 50
        assert 1 <= len(words) <= 35
        there = [word for word in words if word in passage]
        assert row["label"] == pytest.approx(rarity * len(there) / 10, abs=1e-3)
        shares.append(len(there) / len(words))
    assert min(shares) == 0
    assert max(shares) == 1
    assert 0.3 < sum(shares) / len(shares) < 0.7


def test_rarities():
    assert rarities([["The", "old", "the", "new"], ["the,", "end", "end"]], 2) == {
        "the": math.log(4 / 3),
        "old": math.log(4),
        "new": math.log(4),
        "end": math.log(4 / 2),
    }


@pytest.mark.parametrize(("name", "asked"), [("short", 3), ("long", 12)])
def test_marked_words_were_seen(tmp_path, name, asked):
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


def test_no_book_is_in_both_splits(tmp_path):
    _, output = make(tmp_path)
    books = {
        part: {row["text_a"].split("_")[0] for row in rows_of(output / "shared" / f"{part}.jsonl")}
        for part in ("train", "dev")
    }
    assert sorted(books["train"] | books["dev"]) == [f"W{book}" for book in range(5)]
    assert not books["train"] & books["dev"]
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


def test_invalid_settings(tmp_path):
    with pytest.raises(InputError, match="at least 3 files, of which 2 are held out.*Received 1"):
        make(tmp_path, count=1)
    with pytest.raises(InputError, match="at least 0 and below 1. Received 1.0"):
        make(tmp_path, dropped=1.0)
    assert not (tmp_path / "out").exists()
