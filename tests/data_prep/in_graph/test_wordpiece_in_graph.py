"""WordPiece as TensorFlow ops equals the class on every line."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.errors import InputError
from data_prep.in_graph.wordpiece_tokenizer import GraphWordPieceTokenizer
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.wordpiece_tokenizer import SYMBOLS, WordPieceTokenizer
from tests.data_prep.in_graph.test_albert_in_graph import check_equal_encodings
from tests.data_prep.nasty import LINES, texts
from tests.data_prep.wordpieces import vocab_file

__all__ = ["vocab_file"]

ODD = [
    "a" * 200 + " " + "b" * 201 + " " + "é" * 200 + " " + "\U0001d504" * 201,
    "我\u0301ab 在\u0301\u0302, ,\u0301 -\u0301a\u0301\x01\u0302 \u0301 \u0301a",
    "\uf900\uf900a \U0002f800x 한국\u0301어 q\u0323\u0307",
    "x\u302e\u1b44\u302f y\u302e\ufe0f\u1b44 z\u302e\u0301\u1b44 \U0001d15f\U0001d16d\U0001d165",
    "x\u302e",
    "\u1b44y",  # what would be put in order stays in its text
    "\u037e \u1fef \u2126 \u212b \ue000 \U000e0100a a\U000e0100b \U000e0041",
]
# Every kind of character that the rules distinguish.
WORDS = [
    "captain", "Transformers", "UNAFFABLE", "cafés", "Cafe\u0301s", "naïve", "İl", "ΟΔΟΣ", "ﬁre", "ß", "300", "5",
    "3,000", "1987", "￥５", "京", "我喜欢", "北京", "龘", "が", "한국어", "，", "。", "「在」", "😀",
    "👨\u200d👩", "🇩🇪",
    "$", "^", "[MASK]", "##s", "'s", "-", "…", "\x00", "\x1c", "\u200b", "\ufeff", "\u0301", "\ufffd", "b" * 210,
    "e\u0301\x01\u0302", "\u302e\u1b44", "\t", "\u3000", "\u2028",
]  # fmt: skip


def mixed_lines(count: int) -> list[str]:
    """Words of every kind with and without spaces between them."""
    rng = np.random.default_rng(5)
    return [
        "".join(rng.choice(WORDS) + str(rng.choice(["", " ", "  "])) for _ in range(rng.integers(0, 15)))
        for _ in range(count)
    ]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(True, id="uncased"),
        pytest.param(False, id="cased", marks=pytest.mark.very_slow),
    ],
)
def both(request, vocab_file):
    tokenizer = WordPieceTokenizer(vocab_file, Normalization(do_lower_case=request.param))
    return tokenizer, GraphWordPieceTokenizer(tokenizer)


@pytest.mark.slow
def test_equals_the_class(both):
    check_equal_encodings(*both, LINES + ODD)
    for line in LINES + ODD:
        check_equal_encodings(*both, [line])
    graph = both[1]
    assert graph.tokenize(tf.zeros([0], tf.string)).to_list() == []
    assert graph.tokenize_with_offsets(tf.zeros([0], tf.string)).begins.to_list() == []


@pytest.mark.slow
def test_equals_the_class_on_mixed_lines(both):
    check_equal_encodings(*both, mixed_lines(2000))


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(st.one_of(texts(60), st.text()), min_size=1, max_size=4))
def test_equals_the_class_on_any_text(both, lines):
    check_equal_encodings(*both, [line.encode("utf-8", "replace").decode() for line in lines])


@pytest.mark.very_slow
def test_equals_the_class_on_every_character(both):
    """Between letters, to show whether a character separates them, is dropped, or stays."""
    characters = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000]
    lines = ["".join(f"a{c}b " for c in characters[i : i + 500]) for i in range(0, 0x32000, 500)]
    tags = characters[0xE0000 - 0x800 : 0xE0200 - 0x800]  # planes without letters
    check_equal_encodings(*both, [*lines, "".join(f"a{c}b " for c in tags)])


def test_broken_utf8_is_dropped(both):
    tokenizer, graph = both
    raw = [b"the\xffcaptain", b"\xe2\x82 300, \xed\xa0\x80 apples,", b"caf\xc3"]
    expected = tokenizer.encode_batch([line.decode("utf-8", "replace") for line in raw])
    assert graph.tokenize(raw).to_list() == [ids.tolist() for ids in expected]


@pytest.mark.very_slow
def test_blank_lines_in_the_vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SYMBOLS, "", "a", "", "##a", ""]), encoding="utf-8")
    tokenizer = WordPieceTokenizer(path)
    graph = GraphWordPieceTokenizer(tokenizer)
    check_equal_encodings(tokenizer, graph, ["aaa a", "b"])
    assert graph.tokenize(["aaa"]).to_list() == [[6, 8, 8]]


def test_pieces_too_long_for_the_graph(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SYMBOLS, "京" * 86]), encoding="utf-8")
    with pytest.raises(InputError, match="at most 256 bytes. .*vocab.txt has '京"):
        GraphWordPieceTokenizer(WordPieceTokenizer(path))
