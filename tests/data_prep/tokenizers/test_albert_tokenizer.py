import itertools
import json
from dataclasses import astuple
from unicodedata import combining

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from data_prep.errors import InputError
from data_prep.examples.masking import MaskingVocabulary
from data_prep.files import encodable
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer, normalize
from data_prep.tokenizers.normalization import (
    Normalization,
    case_kinds,
    code_points,
    folding_table,
)
from tests.data_prep.nasty import BROKEN, texts
from tests.data_prep.nasty import LINES as NASTY
from tests.reference import masking as reference
from tests.reference.tokenization import encode, is_visible, preprocess
from tests.selection import all_but_very_slow

SYMBOLS = [("<pad>", 3), ("<unk>", 2), ("[CLS]", 3), ("[SEP]", 3), ("[MASK]", 3)]


def handmade(path, pieces: list[tuple[str, float]], symbols=SYMBOLS, rules_of=None) -> AlbertTokenizer:
    """A unigram model of exactly these pieces and scores, with no normalization or that of another model."""
    model = sentencepiece_model_pb2.ModelProto()
    if rules_of is not None:
        other = sentencepiece_model_pb2.ModelProto.FromString(rules_of.read_bytes())
        model.normalizer_spec.CopyFrom(other.normalizer_spec)
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
    """Every case of the rule: '7,' inside a word, '12,' whose digits are not a piece, '▁5,' at the start."""
    characters = [(c, -9.0) for c in "▁x12345678,."]
    pieces = [("▁5,", -1), ("▁5", -2), ("7,", -1), ("12,", -1), ("▁12", -2), ("34,", -1), ("34", -2)]
    return handmade(tmp_path_factory.mktemp("commas") / "commas.model", characters + pieces)


NORMALIZATIONS = [Normalization(*values) for values in itertools.product([True, False], repeat=3)]


def spelled(tokenizer, text):
    return [tokenizer.pieces[i] for i in tokenizer.encode(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5,", ["▁5", ","]),
        ("x7, 5, x", ["▁", "x", "7", ",", "▁5", ",", "▁", "x"]),
        ("x34,", ["▁", "x", "34", ","]),
        # '▁12' would be stripped to '12', which is not a piece: its characters, not <unk>.
        ("x12,", ["▁", "x", "1", "2", ","]),
        ("5.", ["▁5", "."]),
        ("5,5,", ["▁5", ",", "5", ","]),
    ],
)
def test_digit_comma_rule(commas, text, expected):
    assert spelled(commas, text) == expected


def test_digit_comma_table_equals_the_original_rule(commas):
    encode = sentencepiece.SentencePieceProcessor(model_file=str(commas.file)).encode_as_pieces
    for text in ("5, 5,5 x7,x34,", "x8,8, 12 3,4", "345, 67,"):
        assert spelled(commas, text) == reference.digit_comma(encode(text), encode)
    # Every piece has parts, in the order of the pieces, from the first one on.
    table = commas.digit_comma
    parts, counts = table.expand(np.arange(len(commas.pieces)))
    assert parts.tolist() == list(range(len(table.ids)))
    assert {commas.pieces[i] for i in np.flatnonzero(counts > 1)} == {"▁5,", "7,", "12,", "34,"}
    assert counts.min() == 1


def test_real_vocabulary_matches_the_original(real_model_file):
    tokenizer = AlbertTokenizer(real_model_file)
    model = sentencepiece.SentencePieceProcessor(model_file=str(real_model_file))
    for line in NASTY + BROKEN:
        assert tokenizer.encode(line) == encode(model, line)
    assert spelled(tokenizer, "In 2019, [MASK] cost £3,000.") == (
        ["▁in", "▁2019", ",", "▁[", "mask", "]", "▁cost", "▁", "£", "3,000", "."]
    )
    assert (tokenizer.vocab_size, tokenizer.pad_id, tokenizer.unk_id) == (30000, 0, 1)
    assert (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id) == (2, 3, 4)


@settings(deadline=None)
@given(st.one_of(st.text(), texts()), st.sampled_from(NORMALIZATIONS))
def test_normalize_equals_the_original(text, normalization):
    assert normalize(text, normalization) == preprocess(text, *astuple(normalization))


@settings(deadline=None)
@given(texts(60), st.sampled_from(NORMALIZATIONS))
def test_ids_equal_the_original_with_any_normalization(model_file, text, normalization):
    tokenizer = AlbertTokenizer(model_file, normalization)
    assert tokenizer.encode(text) == encode(tokenizer._model, text, *astuple(normalization))


@settings(deadline=None)
@given(st.lists(st.text(max_size=40), max_size=5))
def test_batches_equal_single_texts(tokenizer, some):
    assert tokenizer.encode_batch([]) == tokenizer.encode_batch_with_offsets([]) == []
    batch = tokenizer.encode_batch([*some, *BROKEN])
    assert [ids.tolist() for ids in batch] == [tokenizer.encode(text) for text in [*some, *BROKEN]]
    for ids in batch:
        assert ids.dtype == np.int32
        # Text never becomes a symbol.
        assert not np.isin(
            ids, [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]
        ).any()


def test_decode(tokenizer):
    text = "the captain sailed past 300 apples, in 1987."
    ids = [tokenizer.cls_id, *tokenizer.encode(text), tokenizer.sep_id, tokenizer.pad_id]
    assert tokenizer.decode(np.array(ids)) == text
    assert tokenizer.decode([]) == ""


def test_tables(tokenizer):
    assert tokenizer.is_special.dtype == bool
    assert np.flatnonzero(tokenizer.is_special).tolist() == [0, 1, 2, 3, 4]
    vocabulary = MaskingVocabulary.of(tokenizer, "unicode")
    assert vocabulary.replacements.tolist() == list(range(5, tokenizer.vocab_size))


def test_bad_models(tmp_path):
    with pytest.raises(InputError, match="must exist and be readable"):
        AlbertTokenizer(tmp_path / "none.model")
    for raw in (b"", b"text"):
        (tmp_path / "text.model").write_bytes(raw)
        with pytest.raises(InputError, match="not a SentencePiece model"):
            AlbertTokenizer(tmp_path / "text.model")
    with pytest.raises(InputError, match=r"must have the symbol \[SEP\]"):
        handmade(tmp_path / "lacks.model", [("a", -1.0)], SYMBOLS[:3] + SYMBOLS[4:])


def test_symbols_that_are_user_defined(model_file, tmp_path):
    """They are control symbols all the same: text never becomes one of them."""
    model = sentencepiece_model_pb2.ModelProto.FromString(model_file.read_bytes())
    for piece in model.pieces[2:5]:
        assert piece.type == piece.CONTROL
        piece.type = piece.USER_DEFINED
    (tmp_path / "own.model").write_bytes(model.SerializeToString())
    raw = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "own.model"))
    assert raw.piece_to_id("[MASK]") in raw.encode("a [MASK] sailed")
    usual, own = AlbertTokenizer(model_file), AlbertTokenizer(tmp_path / "own.model")
    assert own.mask_id == usual.mask_id
    assert own.is_special.tolist() == usual.is_special.tolist()
    for line in (*NASTY, "a [MASK] sailed [SEP][CLS]"):
        assert own.encode(line) == usual.encode(line)
    assert own.serialized_model == usual.serialized_model  # what graphs and exports hold


@pytest.fixture(scope="module")
def some_words(model_file, tmp_path_factory) -> AlbertTokenizer:
    words = ["▁in", "▁2019,", "▁2019", "▁5,", "▁5", ",", "▁angstrom", "▁cafe", "s", "▁a", "▁", "f", "i"]
    path = tmp_path_factory.mktemp("words") / "words.model"
    return handmade(path, [(word, -1.0) for word in words], rules_of=model_file)


@pytest.fixture(scope="module")
def words_with_accents(model_file, tmp_path_factory) -> AlbertTokenizer:
    words = ["▁", "▁schöne", "▁bücher", "これ", "が", "ガ", "f", "i", "हिन्दी"]
    path = tmp_path_factory.mktemp("words") / "accents.model"
    file = handmade(path, [(word, -1.0) for word in words], rules_of=model_file).file
    return AlbertTokenizer(file, Normalization(keep_accents=True))


def pieces_with_texts(tokenizer, text: str) -> list[tuple[str, str]]:
    ids, offsets = tokenizer.encode_with_offsets(text)
    return [(tokenizer.pieces[i], text[begin:end]) for i, (begin, end) in zip(ids, offsets, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("In  2019, Ångström", [("▁in", "In"), ("▁2019", "2019"), (",", ","), ("▁angstrom", "Ångström")]),
        ("cafe\u0301s\u0301", [("▁cafe", "cafe\u0301"), ("s", "s\u0301")]),
        ("a\x01 ﬁ½", [("▁a", "a"), ("▁", ""), ("f", "ﬁ"), ("i", "ﬁ"), ("<unk>", "½")]),
        ("x\u200b5\x01,", [("▁", ""), ("<unk>", "x"), ("▁5", "5"), (",", ",")]),
        (" \u1112\u1161\u11ab a", [("▁", ""), ("<unk>", "\u1112\u1161\u11ab"), ("▁a", "a")]),
        ("a\ud800", [("▁a", "a")]),
        ("\x01 ", []),
    ],
)
def test_offsets_by_hand(some_words, text, expected):
    assert pieces_with_texts(some_words, text) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Schöne Bücher", [("▁schöne", "Schöne"), ("▁bücher", "Bücher")]),
        # Decomposed: SentencePiece's own rules compose letters and marks.
        ("Scho\u0308ne  Bu\u0308cher", [("▁schöne", "Scho\u0308ne"), ("▁bücher", "Bu\u0308cher")]),
        ("これが", [("▁", ""), ("これ", "これ"), ("が", "が")]),
        ("これか\u3099", [("▁", ""), ("これ", "これ"), ("が", "か\u3099")]),
        ("ｶﾞ ﬁ", [("▁", ""), ("ガ", "ｶﾞ"), ("▁", ""), ("f", "ﬁ"), ("i", "ﬁ")]),
        ("हिन्दी", [("▁", ""), ("हिन्दी", "हिन्दी")]),
    ],
)
def test_offsets_with_accents(words_with_accents, text, expected):
    assert pieces_with_texts(words_with_accents, text) == expected


def check_offsets(tokenizer, text, encoding):
    """Checks that the text of each piece can be recovered from its offsets."""
    model = tokenizer._model
    begins, ends = encoding.offsets.T.tolist()
    assert encoding.offsets.dtype == encoding.ids.dtype == np.int32
    assert begins == sorted(begins) and ends == sorted(ends)
    assert all(0 <= begin <= end <= len(text) for begin, end in zip(begins, ends, strict=True))
    covered = np.zeros(len(text), bool)
    for begin, end in zip(begins, ends, strict=True):
        covered[begin:end] = True
    visible = np.array([is_visible(model, c) for c in text], bool)
    assert not (visible & ~covered).any(), "every visible character belongs to a piece"
    for i, begin, end in zip(encoding.ids, begins, ends, strict=True):
        piece = tokenizer.pieces[i].replace("▁", "")
        if i == tokenizer.unk_id:
            assert begin < end
        else:
            # A "▁" inside ﷺ, which is four words, spans that character with its accents.
            assert begin < end if piece else sum(not combining(c) for c in text[begin:end]) <= 1
            assert piece in model.normalize(encodable(normalize(text[begin:end]))).replace("▁", "")
        if begin < end:  # no white space at either end, as a reader would mark it
            assert visible[begin] and not text[end - 1].isspace()


@pytest.mark.slow
@settings(deadline=None)  # the first call computes the tables
@given(texts())
def test_text_is_recovered_from_offsets(tokenizer, text):
    check_offsets(tokenizer, text, tokenizer.encode_with_offsets(text))


def test_offsets_of_nasty_lines(tokenizer):
    assert tokenizer.encode_with_offsets("").offsets.shape == (0, 2)
    lines = NASTY + BROKEN
    encodings = tokenizer.encode_batch_with_offsets(lines * 20)  # several chunks
    assert len(encodings) == len(lines) * 20
    for encoding, ids in zip(encodings, tokenizer.encode_batch(lines * 20), strict=True):
        assert encoding.ids.tolist() == ids.tolist()
    for line, encoding in zip(lines, encodings, strict=False):
        check_offsets(tokenizer, line, encoding)
        assert tokenizer.encode_with_offsets(line).offsets.tolist() == encoding.offsets.tolist()


@pytest.mark.very_slow
def test_a_line_of_five_megabytes(tokenizer):
    unit = "漢" * 1000 + "  café, 300, "
    line = unit * (5_000_000 // len(unit.encode("utf-8")))
    offsets = tokenizer.encode_with_offsets(line).offsets
    assert offsets[-1, 1] == len(line) - 1
    first = tokenizer.encode_with_offsets(unit).offsets
    assert offsets[: len(first)].tolist() == first.tolist()
    # Only the end of the last unit: so far into a line, SentencePiece's float scores cannot distinguish ties.
    assert offsets[-3:].tolist() == (first[-3:] + len(line) - len(unit)).tolist()


def test_offsets_recover_real_answers(real_model_file):
    """The pieces that overlap a SQuAD answer contain it; if it consists of whole words, they equal it."""
    tokenizer = AlbertTokenizer(real_model_file)
    articles = json.loads((real_model_file.parents[1] / "squad/dev-v1.1.json").read_text())["data"]
    paragraphs = [paragraph for article in articles[::6] for paragraph in article["paragraphs"]]
    encodings = tokenizer.encode_batch_with_offsets([paragraph["context"] for paragraph in paragraphs])
    answers = exact = 0
    for paragraph, encoding in zip(paragraphs, encodings, strict=True):
        context, (begins, ends) = paragraph["context"], encoding.offsets.T
        for answer in (answer for question in paragraph["qas"] for answer in question["answers"]):
            begin, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
            overlapping = np.flatnonzero((begins < end) & (ends > begin))
            found = context[begins[overlapping[0]] : ends[overlapping[-1]]]
            assert answer["text"].strip() in found
            answers, exact = answers + 1, exact + (found == answer["text"])
    assert answers > 1000
    assert exact > 0.99 * answers


@pytest.mark.slow
@pytest.mark.parametrize(
    "normalization", all_but_very_slow(NORMALIZATIONS, (Normalization(), Normalization(False, True))), ids=str
)
def test_folding_table_equals_normalize(normalization):
    table = folding_table(normalization)
    sigma = "σ" if normalization.do_lower_case else "Σ"
    for code in range(len(table.rows)):
        character, row = chr(code), table.rows[code]
        folded = "".join(map(chr, table.values[table.splits[row] : table.splits[row + 1]]))
        if row == table.ITSELF:
            folded = character
        if normalization.remove_space and character.isspace():
            assert folded == " "
        else:
            assert folded.replace("Σ", sigma) == normalize(character, normalization)
    beyond = "".join(map(chr, range(len(table.rows), 0x110000)))
    assert normalize(beyond, normalization) == beyond


def test_case_kinds_are_the_same_for_capitals():
    """The graph applies the rule of the final sigma after lower case, Python before."""
    kinds = case_kinds()
    folded = normalize("".join(map(chr, range(len(kinds)))), Normalization(do_lower_case=False))
    assert (kinds[code_points(folded)] == kinds[code_points(folded.replace("Σ", "σ").lower())]).all()


def test_case_kinds_end_with_the_last_character_of_a_kind():
    """After a cased character and ignored ones, a Σ at the end of a word becomes ς."""
    end = len(case_kinds())
    is_passed_over = [("A" + chr(i) + "Σ").lower().endswith("ς") for i in range(end - 1, 0x110000)]
    assert is_passed_over[0]
    assert not any(is_passed_over[1:])
