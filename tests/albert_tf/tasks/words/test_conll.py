"""Reading CoNLL files."""

import pytest

from albert_tf.tasks.words.rows import WordsExample
from data_prep.errors import InputError
from tests.albert_tf.tasks.reading import read

CONLL_2003 = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
"""


def read_text(path, text, split="train", labels=()):
    path.write_text(text, encoding="utf-8")
    return read("token-classification", path, split, labels=labels)


def test_the_first_column_is_the_word_and_the_last_its_label(tmp_path):
    examples, problems = read_text(tmp_path / "train.txt", CONLL_2003)
    assert examples == [
        WordsExample("0", ("EU", "rejects"), ("B-ORG", "O")),
        WordsExample("1", ("Peter",), ("B-PER",)),
    ]
    assert problems.lines() == []
    assert read_text(tmp_path / "train.conll", CONLL_2003.replace(" ", "\t"))[0] == examples


@pytest.mark.parametrize("suffix", [".conll", ".conllu", ".bio", ".iob", ".txt", ".tsv"])
def test_a_folder(tmp_path, suffix):
    examples, _ = read_text(tmp_path / f"dev{suffix}", CONLL_2003)
    assert read("token-classification", tmp_path, "dev")[0] == examples
    with pytest.raises(InputError, match=r"\.parquet file, or CoNLL's \.conll, .*Received .*a\.xml"):
        read_text(tmp_path / "a.xml", "<a>")


def test_universal_dependencies(tmp_path):
    """Contractions and omitted words are not words, and comments may have any name."""
    lines = (
        "1 Vamos ir VERB",
        "2-3 al _ _",
        "2 a a ADP",
        "3 el el DET",
        "3.1 mar mar NOUN",
        "4 mar mar NOUN",
    )
    rows = ["\t".join([*line.split(), *"______"]) for line in lines]
    text = "\n".join(["# sent_id = 1", "# speaker = Ana", *rows, "", ""])
    examples, problems = read_text(tmp_path / "train.conllu", text)
    assert examples == [WordsExample("0", ("Vamos", "a", "el", "mar"), ("VERB", "ADP", "DET", "NOUN"))]
    assert problems.lines() == []
    with pytest.raises(InputError, match=r"label outside the set, .*train.conllu:8: received 'mar NOUN'"):
        read("token-classification", tmp_path, labels=("VERB", "ADP", "DET"))


def test_words_with_spaces_and_hashes(tmp_path):
    text = "# sent_id = 1\n# text = a b\nNew York\tB-LOC\n#\tO\n\n# O\n\n\n"
    examples, _ = read_text(tmp_path / "a.tsv", text)
    assert examples == [
        WordsExample("0", ("New York", "#"), ("B-LOC", "O")),
        WordsExample("1", ("#",), ("O",)),
    ]


def test_malformed_sentences_are_reported(tmp_path):
    path = tmp_path / "a.txt"
    examples, problems = read_text(path, "a O\nb\n\nc O\nd X\n\ne O\n\nf\n", labels=("O", "B"))
    assert examples == [WordsExample("2", ("e",), ("O",))]
    assert problems.lines() == [
        f"1 row: line without a word and its label, sentence left out ({path}:2: received 'b')",
        f"1 row: label outside the set, sentence left out ({path}:5: received 'd X')",
        f"1 row: sentence without labels, left out ({path}:9: received 'f')",
    ]


def test_a_test_set_needs_no_labels(tmp_path):
    examples, problems = read_text(tmp_path / "test.txt", "a\nb\n\nc O\nd X\n", "test", ("O",))
    assert [(example.words, example.labels) for example in examples] == [
        (("a", "b"), None),
        (("c", "d"), None),
    ]
    assert dict(problems.counts) == {"label outside the set, labels ignored": 1}


def test_an_empty_file(tmp_path):
    with pytest.raises(InputError, match="must have examples"):
        read_text(tmp_path / "a.txt", "\n\n")
