import numpy as np
import pytest

from albert_tf.errors import InputError
from data_prep.tokenizer import AlbertTokenizer
from data_prep.vocabulary import VocabularySettings, sample_sentences, train_vocabulary

FIRST = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "(", ")", '"', "-", ".", "–", "£", "€"]


def test_symbols_are_those_of_the_released_vocabulary(model_file, real_model_file):
    assert list(AlbertTokenizer(model_file).pieces[:13]) == FIRST
    assert list(AlbertTokenizer(real_model_file).pieces[:13]) == FIRST


def test_size_and_listing(model_file):
    tokenizer = AlbertTokenizer(model_file)
    assert tokenizer.vocab_size == 100
    rows = [row.split("\t") for row in model_file.with_suffix(".vocab").read_text("utf-8").splitlines()]
    assert [row[0] for row in rows] == list(tokenizer.pieces)
    assert rows[2] == ["[CLS]", "0"]
    assert float(rows[20][1]) < 0


def test_text_is_normalized_before_training(model_file, story, tmp_path):
    pieces = AlbertTokenizer(model_file).pieces
    assert not any("É" in piece or "é" in piece or piece.lower() != piece for piece in pieces[13:])
    cased = VocabularySettings(str(story), str(tmp_path / "cased"), vocab_size=100, do_lower_case=False)
    assert any(piece.lower() != piece for piece in AlbertTokenizer(train_vocabulary(cased)).pieces[13:])


def test_same_text_same_bytes(model_file, story, tmp_path):
    again = train_vocabulary(VocabularySettings(str(story), str(tmp_path / "new" / "again"), vocab_size=100))
    assert again == tmp_path / "new" / "again.model"
    assert again.read_bytes() == model_file.read_bytes()
    assert sorted(path.name for path in again.parent.iterdir()) == ["again.model", "again.vocab"]


def test_samples():
    sentences = [str(i) for i in range(100)]
    assert sample_sentences(sentences, 100, np.random.default_rng(0)) == sentences
    assert sample_sentences([], 5, np.random.default_rng(0)) == []
    sampled = np.zeros(100)
    for seed in range(400):
        sample = sample_sentences(iter(sentences), 10, np.random.default_rng(seed))
        assert len(set(sample)) == 10
        sampled[[int(sentence) for sentence in sample]] += 1
    # 40 each, with a standard deviation of 6.
    assert 15 < sampled.min() <= sampled.max() < 70


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 13}, "larger than ALBERT's 13 symbols. Received 13"),
        ({"vocab_size": 5000}, r"Received 5000; this text supports at most \d+"),
        ({"vocab_size": 20}, "room for the text's characters. Received 20"),
        ({"character_coverage": 0.5}, "`character_coverage` must lie"),
        ({"max_sentences": 0}, "`max_sentences` must be at least 1"),
        ({"input_file": "/nowhere.txt"}, "no input file"),
    ],
)
def test_bad_settings(story, tmp_path, change, message):
    settings = {"input_file": str(story), "output_prefix": str(tmp_path / "bad"), "vocab_size": 100, **change}
    with pytest.raises(InputError, match=message):
        train_vocabulary(VocabularySettings(**settings))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["\n\n \n", "\u0301\n\u200b\n"])
def test_text_without_sentences(tmp_path, text):
    (tmp_path / "blank.txt").write_text(text)
    with pytest.raises(InputError, match="A vocabulary needs text"):
        train_vocabulary(
            VocabularySettings(str(tmp_path / "blank.txt"), str(tmp_path / "bad"), vocab_size=100)
        )
