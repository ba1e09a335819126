import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.errors import InputError
from data_prep.examples.masking import MaskingVocabulary
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.wordpiece_tokenizer import SYMBOLS, WordPieceTokenizer
from data_prep.tokenizers.words import split_words
from tests.data_prep.nasty import BROKEN, LINES, texts
from tests.data_prep.wordpieces import vocab_file
from tests.reference.tokenization import wordpieces

__all__ = ["vocab_file"]


@pytest.fixture(scope="module")
def tokenizer(vocab_file) -> WordPieceTokenizer:
    return WordPieceTokenizer(vocab_file)


def spelled(tokenizer, text):
    return [tokenizer.pieces[i] for i in tokenizer.encode(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我喜欢Transformers，在 京。", ["我", "喜", "欢", "transform", "##ers", "，", "在", "京", "。"]),
        ("UNAFFABLE cafés", ["un", "##aff", "##able", "cafe", "##s"]),
        ("a\x01b\u200b\x1cb a\u2028b", ["a", "##b", "##b", "a", "b"]),
        ("$5,^", ["$", "5", ",", "^"]),
        ("[MASK]", ["[", "m", "##a", "##s", "##k", "]"]),
        ("龘 a" + "b" * 200, ["[UNK]", "[UNK]"]),
        (" \x00 ", []),
    ],
)
def test_pieces_by_hand(tokenizer, text, expected):
    assert spelled(tokenizer, text) == expected


@settings(deadline=None)
@given(st.one_of(texts(), st.text()), st.booleans())
def test_pieces_equal_the_original(vocab_file, text, do_lower_case):
    tokenizer = WordPieceTokenizer(vocab_file, Normalization(do_lower_case))
    assert spelled(tokenizer, text) == wordpieces(set(tokenizer.pieces), text, do_lower_case)


def test_nasty_lines(tokenizer):
    for line in LINES + BROKEN:
        assert spelled(tokenizer, line) == wordpieces(set(tokenizer.pieces), line)


def test_pieces_equal_tensorflow_text(tokenizer, vocab_file):
    """On ordinary text, since its case folding changes more than the original's lower case (ﬁ, ，, Σ)."""
    lines = [
        "The captain's 300 apples, in 1987 (un-affable)!", "Où est-il? UNAFFABLE cafe\u0301s", "", "[MASK] ##s",
        "我喜欢Transformers在 北京。", "カタカナ が 한국어 龘", "naïve “quotes” – dash £5 ^$", "b" * 90,
    ]  # fmt: skip
    theirs = tf_text.BertTokenizer(str(vocab_file), lower_case=True, token_out_type=tf.int64)
    for line, words in zip(lines, theirs.tokenize(lines).to_list(), strict=True):
        assert tokenizer.encode(line) == [i for pieces in words for i in pieces], line


@settings(deadline=None)
@given(texts())
def test_offsets(tokenizer, text):
    encoding = tokenizer.encode_with_offsets(text)
    assert encoding.ids.tolist() == tokenizer.encode(text)
    begins, ends = encoding.offsets.T.tolist()
    assert begins == sorted(begins) and ends == sorted(ends)
    for i, begin, end in zip(encoding.ids, begins, ends, strict=True):
        piece = tokenizer.pieces[i].removeprefix("##")
        assert 0 <= begin < end <= len(text)
        if i != tokenizer.unk_id:
            assert piece in "".join(word.text for word in split_words(text[begin:end])).replace("σ", piece)


def test_offsets_by_hand(tokenizer):
    text = "Où est-il? 我 Cafe\u0301s\u0301 İ"
    words = list(split_words(text))
    slices = [text[word.begins[0] : word.ends[-1]] for word in words]
    assert slices == ["Où", "est", "-", "il", "?", "我", "Cafe\u0301s\u0301", "İ"]
    encoding = tokenizer.encode_with_offsets(text)
    assert encoding.offsets.tolist()[-3:] == [[13, 18], [18, 20], [21, 22]]
    assert tokenizer.encode_batch_with_offsets([text, ""])[1].offsets.shape == (0, 2)


def test_has_the_interface_of_the_sentencepiece_class(tokenizer):
    def public(cls):
        return {name for name in dir(cls) if not name.startswith("_")}

    own_to_sentencepiece = {"serialized_model", "folding", "locator", "offset_tables", "cuts"}
    assert public(AlbertTokenizer) - own_to_sentencepiece == public(WordPieceTokenizer) - {"split"}
    assert tokenizer.pieces[:5] == SYMBOLS
    assert np.flatnonzero(tokenizer.is_special).tolist() == [0, 1, 2, 3, 4]
    starts = [
        piece
        for piece, start in zip(tokenizer.pieces, tokenizer.word_starts("unicode"), strict=True)
        if start
    ]
    assert not any(piece.startswith("##") for piece in starts)
    assert MaskingVocabulary.of(tokenizer, "unicode").replacements.tolist() == list(
        range(5, tokenizer.vocab_size)
    )
    assert [ids.dtype for ids in tokenizer.encode_batch(["a", ""])] == [np.int32] * 2


def test_decode(tokenizer):
    text = tokenizer.encode("我喜欢 Transformers, 龘!")
    ids = [tokenizer.cls_id, *text, tokenizer.sep_id, tokenizer.pad_id]
    assert tokenizer.decode(np.array(ids)) == "我喜欢transformers , [UNK] !"


def test_bad_vocabularies(tmp_path):
    path = tmp_path / "vocab.txt"
    with pytest.raises(InputError, match="must exist and be readable"):
        WordPieceTokenizer(path)
    path.write_bytes(b"[PAD]\n\xff")
    with pytest.raises(InputError, match="must be UTF-8.*invalid byte at 6"):
        WordPieceTokenizer(path)
    path.write_text("")
    with pytest.raises(InputError, match=r"lacks \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"):
        WordPieceTokenizer(path)
    path.write_text("\n".join([*SYMBOLS, "a", "b", "a"]))
    with pytest.raises(InputError, match="'a' on lines 6 and 8"):
        WordPieceTokenizer(path)
    path.write_text("\r\n".join([*SYMBOLS, "a", "", ""]))
    assert WordPieceTokenizer(path).encode("a") == [5]
