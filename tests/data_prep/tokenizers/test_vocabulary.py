import pickle

import pytest

from data_prep.errors import InputError
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.vocabulary import Vocabulary, vocabulary_from_flags
from data_prep.tokenizers.wordpiece_tokenizer import WordPieceTokenizer
from tests.data_prep.wordpieces import vocab_file  # noqa: F401 - a fixture


def test_read_and_save(model_file, vocab_file, tmp_path):  # noqa: F811
    for file, kind, name in (
        (model_file, "sentencepiece", "spm.model"),
        (vocab_file, "wordpiece", "vocab.txt"),
    ):
        vocabulary = Vocabulary.read(file, do_lower_case=False)
        assert (vocabulary.kind, vocabulary.file) == (kind, str(file))
        saved = vocabulary.save(tmp_path)
        assert saved == tmp_path / name
        assert Vocabulary.read(saved, do_lower_case=False) == vocabulary != Vocabulary.read(saved)
        assert vocabulary.count_pieces() == vocabulary.tokenizer().vocab_size


def test_tokenizers_need_no_file(model_file, vocab_file):  # noqa: F811
    text = "She lived in 1987, 我 Cafés!"
    for file, kind in ((model_file, AlbertTokenizer), (vocab_file, WordPieceTokenizer)):
        vocabulary = Vocabulary(Vocabulary.read(file).kind, file.read_bytes())
        tokenizer = vocabulary.tokenizer()
        assert isinstance(tokenizer, kind)
        assert tokenizer.encode(text) == kind(file).encode(text)
        assert pickle.loads(pickle.dumps(tokenizer)).encode(text) == tokenizer.encode(text)


def test_errors_name_the_file(tmp_path):
    with pytest.raises(InputError, match="There must be a file .*none.model"):
        Vocabulary.read(tmp_path / "none.model")
    with pytest.raises(InputError, match="The vocabulary is not a SentencePiece model"):
        Vocabulary("sentencepiece", b"text").tokenizer()
    with pytest.raises(InputError, match=r"The vocabulary lacks \[PAD\]"):
        Vocabulary("wordpiece", b"text").tokenizer()
    (tmp_path / "broken.model").write_bytes(b"text")
    with pytest.raises(InputError, match="must be a SentencePiece model. .*broken.model is not"):
        Vocabulary.read(tmp_path / "broken.model").count_pieces()


def test_flags():
    assert vocabulary_from_flags("a.model", None) == "a.model"
    assert vocabulary_from_flags(None, "vocab.txt") == "vocab.txt"
    for flags, message in (
        ((None, None), "Received neither"),
        (("a.model", "vocab.txt"), "Received both"),
        (("vocab.txt", None), "Received spm_model_file=vocab.txt"),
        ((None, "a.model"), "Received vocab_file=a.model"),
    ):
        with pytest.raises(InputError, match=message):
            vocabulary_from_flags(*flags)
