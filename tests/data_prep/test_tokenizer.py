import unicodedata

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError
from data_prep.tokenizer import AlbertTokenizer, normalize
from tests.reference import masking as reference

SYMBOLS = [("<pad>", 3), ("<unk>", 2), ("[CLS]", 3), ("[SEP]", 3), ("[MASK]", 3)]
LINES = [
    "The captain sailed past 300 apples, in 1987, for £3,000.",
    "",
    " \t\u3000 ",
    "PEOPLE and Café №5, ﬁre",
    "typed [MASK], [CLS] and <unk> and <pad>",
    "zero\u200bwidth, soft\u00adhyphen, \x00 control \x7f",
    "broken \ud800 surrogate",
    "▁already ▁marked",
    "a" * 5000,
]


def handmade(path, pieces: list[tuple[str, float]], symbols=SYMBOLS) -> AlbertTokenizer:
    """A unigram model of exactly these pieces and scores."""
    model = sentencepiece_model_pb2.ModelProto()
    model.trainer_spec.model_type = 1
    for name, i in (("pad", 0), ("unk", 1), ("bos", -1), ("eos", -1)):
        setattr(model.trainer_spec, f"{name}_id", i)
    model.trainer_spec.pad_piece = "<pad>"
    for piece, kind in symbols:
        model.pieces.add(piece=piece, score=0, type=kind)
    for piece, score in pieces:
        model.pieces.add(piece=piece, score=score)
    path.write_bytes(model.SerializeToString())
    return AlbertTokenizer(path)


@pytest.fixture(scope="module")
def commas(tmp_path_factory) -> AlbertTokenizer:
    """Every case of the rule: '7,' inside a word, '12,' whose digits are no piece, '▁5,' at a start."""
    characters = [(c, -9.0) for c in "▁x12345678,."]
    pieces = [("▁5,", -1), ("▁5", -2), ("7,", -1), ("12,", -1), ("▁12", -2), ("34,", -1), ("34", -2)]
    return handmade(tmp_path_factory.mktemp("commas") / "commas.model", characters + pieces)


def spelled(tokenizer, text):
    return [tokenizer.pieces[i] for i in tokenizer.encode(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5,", ["▁5", ","]),
        ("x7, 5, x", ["▁", "x", "7", ",", "▁5", ",", "▁", "x"]),
        ("x34,", ["▁", "x", "34", ","]),
        # '▁12' would be stripped to '12', which is no piece: its characters, not <unk>.
        ("x12,", ["▁", "x", "1", "2", ","]),
        ("5.", ["▁5", "."]),
        ("5,5,", ["▁5", ",", "5", ","]),
    ],
)
def test_digit_comma_rule(commas, text, expected):
    assert spelled(commas, text) == expected


def test_digit_comma_table_is_the_original_rule(commas):
    encode = sentencepiece.SentencePieceProcessor(model_file=str(commas.spm_model_file)).encode_as_pieces
    for text in ("5, 5,5 x7,x34,", "x8,8, 12 3,4", "345, 67,"):
        assert spelled(commas, text) == reference.digit_comma(encode(text), encode)


def test_real_vocabulary_matches_the_original(real_model_file):
    tokenizer = AlbertTokenizer(real_model_file)
    model = sentencepiece.SentencePieceProcessor(model_file=str(real_model_file))
    for line in LINES[:6]:
        pieces = reference.digit_comma(model.encode_as_pieces(normalize(line)), model.encode_as_pieces)
        assert tokenizer.encode(line) == [model.piece_to_id(piece) for piece in pieces]
    assert spelled(tokenizer, "In 2019, [MASK] cost £3,000.") == (
        ["▁in", "▁2019", ",", "▁[", "mask", "]", "▁cost", "▁", "£", "3,000", "."]
    )
    assert (tokenizer.vocab_size, tokenizer.pad_id, tokenizer.unk_id) == (30000, 0, 1)
    assert (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id) == (2, 3, 4)


@pytest.mark.parametrize(
    ("text", "cased", "uncased"),
    [
        ("  Café\t№ 5 ", "Cafe No 5", "cafe no 5"),
        ("ÅNGSTRÖM ﬁ ½", "ANGSTROM fi 1⁄2", "angstrom fi 1⁄2"),
        ("a\u2028b\x0cc\u00a0d", "a b c d", "a b c d"),
        ("", "", ""),
    ],
)
def test_normalize(text, cased, uncased):
    assert normalize(text, do_lower_case=False) == cased
    assert normalize(text) == uncased


@given(st.text())
def test_normalize_is_what_the_original_does(text):
    """Its lines, one by one; ours takes a short cut for ASCII."""
    expected = unicodedata.normalize("NFKD", " ".join(text.strip().split()))
    expected = "".join(c for c in expected if not unicodedata.combining(c)).lower()
    assert normalize(text) == expected


@given(st.lists(st.text(max_size=40), max_size=5))
def test_batches_equal_single_texts_and_nothing_crashes(tokenizer, texts):
    batch = tokenizer.encode_batch([*texts, *LINES])
    assert [ids.tolist() for ids in batch] == [tokenizer.encode(text) for text in [*texts, *LINES]]
    for ids in batch:
        assert ids.dtype == np.int32
        # What people type never becomes a symbol.
        assert not np.isin(
            ids, [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]
        ).any()


def test_decode(tokenizer):
    text = "the captain sailed past 300 apples, in 1987."
    ids = [tokenizer.cls_id, *tokenizer.encode(text), tokenizer.sep_id, tokenizer.pad_id]
    assert tokenizer.decode(np.array(ids)) == text
    assert tokenizer.decode([]) == ""


def test_tables(tokenizer):
    assert tokenizer.starts_word.dtype == tokenizer.is_special.dtype == bool
    assert tokenizer.starts_word.tolist() == [reference.starts_word(piece) for piece in tokenizer.pieces]
    assert np.flatnonzero(tokenizer.is_special).tolist() == [0, 1, 2, 3, 4]
    vocabulary = tokenizer.masking_vocabulary
    assert vocabulary.replacements.tolist() == list(range(5, tokenizer.vocab_size))


@pytest.mark.parametrize(
    ("piece", "starts"),
    [
        *(("▁the", True), (",", True), ("£", True), ("é", True), ("5", True), ("'", True), ("'s", True)),
        *(("<x", True), ("ing", False), ("ING", False), ("a-b", False), ("[MASK]", False)),
    ],
)
def test_starts_word(tmp_path, piece, starts):
    tokenizer = handmade(tmp_path / "one.model", [("q", -1.0)] if piece == "[MASK]" else [(piece, -1.0)])
    assert tokenizer.starts_word[tokenizer.pieces.index(piece)] == starts


def test_bad_models(tmp_path):
    with pytest.raises(InputError, match="no SentencePiece model"):
        AlbertTokenizer(tmp_path / "none.model")
    for raw in (b"", b"text"):
        (tmp_path / "text.model").write_bytes(raw)
        with pytest.raises(InputError, match="not a SentencePiece model"):
            AlbertTokenizer(tmp_path / "text.model")
    with pytest.raises(InputError, match=r"control symbol \[SEP\]"):
        handmade(tmp_path / "lacks.model", [("a", -1.0)], SYMBOLS[:3] + SYMBOLS[4:])
    with pytest.raises(InputError, match=r"control symbol \[MASK\]"):
        handmade(tmp_path / "typed.model", [("a", -1.0)], [*SYMBOLS[:4], ("[MASK]", 4)])
