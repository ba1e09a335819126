import json
import pickle

import pytest

from data_prep.errors import InputError
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary, read_normalization, vocabulary_from_flags
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
        assert Vocabulary.read(saved) == Vocabulary.read(saved, do_lower_case=False) == vocabulary
        with pytest.raises(InputError, match="its own normalization. .* received do_lower_case=true"):
            Vocabulary.read(saved, do_lower_case=True)
        assert vocabulary.count_pieces() == vocabulary.tokenizer().vocab_size


def test_the_usual_normalization_needs_no_file(model_file, tmp_path):
    content = model_file.read_bytes()
    kept = Vocabulary("sentencepiece", content, Normalization(keep_accents=True, remove_space=False))
    assert Vocabulary.read(kept.save(tmp_path)) == kept
    usual = Vocabulary("sentencepiece", content)
    assert Vocabulary.read(usual.save(tmp_path)) == usual
    assert [path.name for path in tmp_path.iterdir()] == ["spm.model"]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("spiece.model", {"tokenizer_class": "AlbertTokenizer"}, Normalization()),
        ("spiece.model", {"keep_accents": True}, Normalization(keep_accents=True)),
        ("spiece.model", {"do_lower_case": False, "remove_space": False}, Normalization(False, False, False)),
        ("vocab.txt", {"do_lower_case": False, "keep_accents": True}, Normalization(False)),
        ("vocab.txt", {"do_lower_case": True, "strip_accents": None}, Normalization()),
        ("vocab.txt", {"do_lower_case": False, "strip_accents": False}, Normalization(False)),
        ("30k.model", {"keep_accents": True}, None),
    ],
)
def test_normalization_in_hugging_face_directories(tmp_path, name, values, expected):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(values))
    assert read_normalization(tmp_path / name) == expected


def test_bad_normalizations(tmp_path, vocab_file):  # noqa: F811
    file = tmp_path / "tokenizer_config.json"
    file.write_text('{"keep_accents": "yes"}')
    with pytest.raises(
        InputError, match="tokenizer_config.json: Expected `bool`, got `str` - at `..keep_accents`"
    ):
        read_normalization(tmp_path / "spiece.model")
    file.write_text('{"do_lower_case": false, "strip_accents": true}')
    with pytest.raises(InputError, match="a cased WordPiece vocabulary keeps accents"):
        read_normalization(tmp_path / "vocab.txt")
    file.write_text('{"do_lower_case": true, "tokenize_chinese_chars": false}')
    with pytest.raises(InputError, match="must be a word, as in BERT. Received tokenize_chinese_chars=false"):
        read_normalization(tmp_path / "vocab.txt")
    with pytest.raises(InputError, match="A WordPiece vocabulary in lower case has no accents"):
        WordPieceTokenizer(vocab_file, Normalization(keep_accents=True))


def test_tokenizers_need_no_file(model_file, vocab_file):  # noqa: F811
    text = "She lived in 1987, 我 Cafés!"
    for file, kind in ((model_file, AlbertTokenizer), (vocab_file, WordPieceTokenizer)):
        vocabulary = Vocabulary(Vocabulary.read(file).kind, file.read_bytes())
        tokenizer = vocabulary.tokenizer()
        assert isinstance(tokenizer, kind)
        assert tokenizer.encode(text) == kind(file).encode(text)
        assert pickle.loads(pickle.dumps(tokenizer)).encode(text) == tokenizer.encode(text)


def test_errors_name_the_file(tmp_path):
    with pytest.raises(InputError, match="The file .*none.model must exist"):
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
    assert vocabulary_from_flags("v/a.model", "v/a.vocab") == "v/a.model"
    for flags, message in (
        ((None, None), "Received neither"),
        (("a.model", "vocab.txt"), "Received both; leave out `vocab_file`"),
        (("a.model", "b.vocab"), "Received both"),
        (("vocab.txt", None), "Received spm_model_file=vocab.txt"),
        ((None, "a.model"), "Received vocab_file=a.model"),
    ):
        with pytest.raises(InputError, match=message):
            vocabulary_from_flags(*flags)
