"""WordPiece as TensorFlow ops equals the class on every line."""

import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.errors import InputError
from data_prep.in_graph.wordpiece_tokenizer import GraphWordPieceTokenizer
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.wordpiece_tokenizer import SYMBOLS, WordPieceTokenizer
from data_prep.tokenizers.words import CharKind, character_kinds
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
WORDS = ["captain", "Transformers", "UNAFFABLE", "cafés", "Cafe\u0301s", "naïve", "İl", "ΟΔΟΣ", "ﬁre", "ß"]
WORDS += [
    "300",
    "5",
    "3,000",
    "1987",
    "￥５",
    "京",
    "我喜欢",
    "北京",
    "龘",
    "が",
    "한국어",
    "，",
    "。",
    "「在」",
]
WORDS += [
    "😀",
    "👨\u200d👩",
    "🇩🇪",
    "$",
    "^",
    "[MASK]",
    "##s",
    "'s",
    "-",
    "…",
    "\x00",
    "\x1c",
    "\u200b",
    "\ufeff",
]
WORDS += ["\u0301", "\ufffd", "b" * 210, "e\u0301\x01\u0302", "\u302e\u1b44", "\t", "\u3000", "\u2028"]


def mixed_lines(count: int) -> list[str]:
    """Words of every kind with and without spaces between them."""
    rng = np.random.default_rng(5)
    return [
        "".join(rng.choice(WORDS) + str(rng.choice(["", " ", "  "])) for _ in range(rng.integers(0, 15)))
        for _ in range(count)
    ]


def check_equal(both, lines):
    tokenizer, graph = both
    located = graph.tokenize_with_offsets(lines)
    ids, begins, ends = (part.to_list() for part in located)
    assert graph.tokenize(lines).to_list() == ids
    for i, (line, encoding) in enumerate(zip(lines, tokenizer.encode_batch_with_offsets(lines), strict=True)):
        assert ids[i] == encoding.ids.tolist(), repr(line)
        bytes_before = np.cumsum([0, *(len(character.encode()) for character in line)])
        expected = bytes_before[encoding.offsets].tolist()
        assert expected == list(map(list, zip(begins[i], ends[i], strict=True))), repr(line)


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def both(request, vocab_file):
    tokenizer = WordPieceTokenizer(vocab_file, Normalization(do_lower_case=request.param))
    return tokenizer, GraphWordPieceTokenizer(tokenizer)


@pytest.mark.slow
def test_equals_the_class(both):
    check_equal(both, LINES + ODD)
    for line in LINES + ODD:
        check_equal(both, [line])
    graph = both[1]
    assert graph.tokenize(tf.zeros([0], tf.string)).to_list() == []
    assert graph.tokenize_with_offsets(tf.zeros([0], tf.string)).begins.to_list() == []


@pytest.mark.slow
def test_equals_the_class_on_mixed_lines(both):
    check_equal(both, mixed_lines(2000))


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(st.one_of(texts(60), st.text()), min_size=1, max_size=4))
def test_equals_the_class_on_any_text(both, lines):
    check_equal(both, [line.encode("utf-8", "replace").decode() for line in lines])


@pytest.mark.very_slow
def test_equals_the_class_on_every_character(both):
    """Between letters, to show whether a character separates them, is dropped, or stays."""
    characters = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000]
    lines = ["".join(f"a{c}b " for c in characters[i : i + 500]) for i in range(0, 0x32000, 500)]
    lines += [
        "".join(f"a{c}b " for c in characters[0xE0000 - 0x800 : 0xE0200 - 0x800])
    ]  # planes without letters
    check_equal(both, lines)


def test_the_table_covers_all_special_characters():
    kinds = character_kinds()
    expected = {
        " ": CharKind.SPACE,
        "\t": CharKind.SPACE,
        "\x0b": CharKind.DROPPED,
        "\ufffd": CharKind.DROPPED,
        "京": CharKind.CHINESE,
        "$": CharKind.PUNCTUATION,
        "。": CharKind.PUNCTUATION,
        "\u0301": CharKind.ACCENT,
        "\u302e": CharKind.REORDERED,
    }
    assert {c: kinds[ord(c)] for c in expected} == expected
    assert kinds[ord("が")] == kinds[ord("a")] == kinds[-1] == CharKind.IN_WORD


def test_broken_utf8_is_dropped(both):
    tokenizer, graph = both
    raw = [b"the\xffcaptain", b"\xe2\x82 300, \xed\xa0\x80 apples,", b"caf\xc3"]
    expected = tokenizer.encode_batch([line.decode("utf-8", "replace") for line in raw])
    assert graph.tokenize(raw).to_list() == [ids.tolist() for ids in expected]


@pytest.mark.slow
def test_blank_lines_in_the_vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SYMBOLS, "", "a", "", "##a", ""]), encoding="utf-8")
    tokenizer = WordPieceTokenizer(path)
    graph = GraphWordPieceTokenizer(tokenizer)
    check_equal((tokenizer, graph), ["aaa a", "b"])
    assert graph.tokenize(["aaa"]).to_list() == [[6, 8, 8]]


def test_pieces_too_long_for_the_graph(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SYMBOLS, "京" * 86]), encoding="utf-8")
    with pytest.raises(InputError, match="at most 256 bytes. .*vocab.txt has '京"):
        GraphWordPieceTokenizer(WordPieceTokenizer(path))


@pytest.mark.slow
def test_a_wordpiece_export_needs_no_files(both, tmp_path):
    tokenizer, graph = both
    tf.saved_model.save(graph, str(tmp_path / "export"))
    (tmp_path / "export").rename(tmp_path / "elsewhere")
    check_equal((tokenizer, tf.saved_model.load(str(tmp_path / "elsewhere"))), LINES)


@pytest.mark.very_slow
def test_ten_thousand_real_lines(real_model_file, tmp_path):
    """Novels, questions and reviews, with a vocabulary of their characters, some prefixes and some suffixes."""
    data = real_model_file.parents[1]
    files = sorted(
        [*data.glob("multilingual/*/*.txt"), *data.glob("books_en/*.md"), *data.glob("glue/*/*.tsv")]
    )
    lines = [
        line
        for file in files
        for line in file.read_text("utf-8", errors="replace").split("\n")[:: 1 + len(files) // 8][:800]
    ]
    for file in sorted(data.glob("multilingual/*/*.squad.json")):
        for article in json.loads(file.read_text("utf-8"))["data"]:
            lines += [paragraph["context"] for paragraph in article["paragraphs"]]
    lines = lines[:: max(1, len(lines) // 10_000)]
    assert len(lines) >= 10_000
    words = [word[:20] for word in " ".join(lines).lower().split()]
    pieces = {c for word in words for c in word} | {word[:3] for word in words} | set(words[::7])
    pieces |= {f"##{word[-3:]}" for word in words} | {f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"}
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(dict.fromkeys([*SYMBOLS, *sorted(pieces - set(SYMBOLS))])), encoding="utf-8")
    tokenizer = WordPieceTokenizer(path)
    check_equal((tokenizer, GraphWordPieceTokenizer(tokenizer)), lines)
