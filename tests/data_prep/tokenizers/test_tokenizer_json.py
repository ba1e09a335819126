import base64
import copy
import json
import re
import unicodedata

import pytest
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

from data_prep.errors import InputError
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.tokenizer_json import other_ids, read_tokenizer_json
from data_prep.tokenizers.vocabulary import Vocabulary
from data_prep.tokenizers.wordpiece_tokenizer import WordPieceTokenizer
from tests.data_prep.nasty import LINES
from tests.data_prep.tokenizers.test_tokenizer_json_writing import trained
from tests.data_prep.wordpieces import vocab_file  # noqa: F401 - a fixture
from tests.selection import all_but_very_slow


def step(kind: str, **values):
    return {"type": kind, **values}


def unigram(model_file, normalization: Normalization) -> dict:
    """What transformers 5 saves for a SentencePiece model."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model_file.read_bytes())
    steps = [step("Replace", pattern={"String": quote}, content='"') for quote in ("``", "''")]
    if not normalization.keep_accents:
        steps += [step("NFKD"), step("StripAccents")]
    if normalization.do_lower_case:
        steps.append(step("Lowercase"))
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    steps.append(step("Precompiled", precompiled_charsmap=charsmap))
    spaces = [step("WhitespaceSplit"), step("Metaspace", replacement="▁", prepend_scheme="always")]
    return {
        "added_tokens": [
            {"id": i, "content": piece.piece, "special": piece.type != piece.USER_DEFINED}
            for i, piece in enumerate(proto.pieces)
            if piece.type != piece.NORMAL
        ],
        "normalizer": step("Sequence", normalizers=steps),
        "pre_tokenizer": step("Sequence", pretokenizers=spaces),
        "model": step("Unigram", unk_id=1, vocab=[[p.piece, p.score] for p in proto.pieces]),
    }


def wordpiece(pieces, **normalizer) -> dict:
    rules = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    ids = {piece: i for i, piece in enumerate(pieces)}
    return {
        "added_tokens": [{"id": 0, "content": "[PAD]", "special": True}],
        "normalizer": step("BertNormalizer", **rules | normalizer),
        "pre_tokenizer": step("BertPreTokenizer"),
        "model": step("WordPiece", vocab=ids, continuing_subword_prefix="##"),
    }


def read(folder, values) -> Vocabulary:
    (folder / "tokenizer.json").write_text(json.dumps(values))
    return read_tokenizer_json(folder / "tokenizer.json")


def ids_in_transformers(values: dict, text: str) -> list[int]:
    """By the library in which transformers runs a tokenizer.json."""
    return Tokenizer.from_str(json.dumps(values)).encode(text, add_special_tokens=False).ids


def as_saved(model_file, normalization=Normalization(), **changes) -> dict:  # noqa: B008 - immutable
    """A complete file of transformers without added symbols, which it treats in its own way."""
    values = unigram(model_file, normalization) | {"version": "1.0", "added_tokens": []}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    pieces = [piece for piece, _ in values["model"]["vocab"]]
    values["added_tokens"] = [
        {"id": pieces.index(name), "content": name, "special": True, **flags}
        for name in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
    ]
    return values | changes


# What transformers' rules are known to do unlike ALBERT's.
UNLIKE = [
    "항구는 아침", "ΟΔΟΣ ΑΣ", "5\ufe0f\u20e3 a\ufe0f", "छोटा हिन्दी", "ผู้หญิง", "``the'' house",
    "\u1112\u1161\u11bc\u1100\u116e",
    "Café №5, ﬁre", " the  house ", "the\u00a0house\u200bof\tit", "",
]  # fmt: skip


@pytest.mark.parametrize(
    "normalization",
    all_but_very_slow(
        [Normalization(a, b) for a in (True, False) for b in (True, False)],
        [Normalization(), Normalization(False, True)],
    ),
    ids=str,
)
def test_rules_of_transformers_are_followed(foreign_model, tmp_path, normalization):
    values = as_saved(foreign_model, normalization)
    tokenizer = read(tmp_path, values).tokenizer()
    assert other_ids(tmp_path / "tokenizer.json") == ""
    lines = [line for line in LINES if "[MASK]" not in line and not re.search(r"[0-9５６٣],|ᾺΣ", line)]
    for text in UNLIKE + lines:
        assert tokenizer.encode(text) == ids_in_transformers(values, text), text


def test_pieces_of_several_words_are_never_used(foreign_model, tmp_path):
    """transformers looks for pieces in one word at a time."""
    values = as_saved(foreign_model)
    values["model"]["vocab"] += [["▁the▁house", -0.1], ["e▁", -0.1]]
    tokenizer = read(tmp_path, values).tokenizer()
    assert tokenizer.encode("the house") == ids_in_transformers(values, "the house")


@pytest.fixture(scope="module")
def foreign_model(tmp_path_factory):
    """A SentencePiece model with pieces of Korean, Hindi, Thai and Greek, in all forms of the characters."""
    lines = ["항구는 아침 the house 5 of it", "छोटा हिन्दी ผู้หญิง οδος οδοσ café"]
    lines += [unicodedata.normalize("NFKD", lines[1]), "\u1112 \u1161 \u11bc"]
    file = tmp_path_factory.mktemp("foreign") / "spm.model"
    file.write_bytes(trained(lines, vocab_size=66, normalization_rule_name="nmt_nfkc"))
    return file


@pytest.mark.parametrize("rule", ["added token", "piece", "no piece for spaces", "no words"])
def test_texts_with_other_ids_in_transformers(foreign_model, tmp_path, rule):
    values = as_saved(foreign_model)
    if rule == "added token":
        values["added_tokens"].append({"id": 9, "content": values["model"]["vocab"][9][0], "special": False})
        expected = f"words around {values['model']['vocab'][9][0]}"
    elif rule == "piece":
        values["model"]["vocab"].append(("\u25811,", -3.0))
        expected = "numbers with a comma"
    elif rule == "no piece for spaces":
        values["model"]["vocab"] = [[p + "x" * (p == "▁"), score] for p, score in values["model"]["vocab"]]
        expected = "unknown words in a row"
    else:
        values["pre_tokenizer"]["pretokenizers"].pop(0)
        expected = "texts with a space at the end, or several in a row"
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    assert other_ids(tmp_path / "tokenizer.json") == expected


@pytest.fixture(scope="module")
def both(model_file, tmp_path_factory):
    """The tokenizer of a SentencePiece model, and that of the tokenizer.json made of it."""
    converted = read(tmp_path_factory.mktemp("json"), unigram(model_file, Normalization()))
    return AlbertTokenizer(model_file), converted.tokenizer()


@pytest.mark.slow
def test_pieces_symbols_and_ids_equal_the_model(both):
    model, converted = both
    assert converted.pieces == model.pieces
    assert converted.is_special.tolist() == model.is_special.tolist()
    lines = ["The captain sailed  past 7 apples", "Café №5, ﬁre, ½"]
    for ours, theirs in zip(
        converted.encode_batch_with_offsets(lines), model.encode_batch_with_offsets(lines), strict=True
    ):
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.offsets.tolist() == theirs.offsets.tolist()


def test_an_added_token_beyond_the_pieces(model_file, tmp_path):
    values = unigram(model_file, Normalization())
    number = len(values["model"]["vocab"])
    values["added_tokens"].append({"id": number, "content": "@", "special": False})
    tokenizer = read(tmp_path, values).tokenizer()
    assert tokenizer.vocab_size == number + 1
    assert tokenizer.encode("the @")[-1] == number


def test_wordpiece(vocab_file, tmp_path):  # noqa: F811
    model = WordPieceTokenizer(vocab_file)
    vocabulary = read(tmp_path, wordpiece(model.pieces))
    assert vocabulary.kind == "wordpiece"
    converted = vocabulary.tokenizer()
    assert converted.pieces == model.pieces
    for line in LINES:
        assert converted.encode(line) == model.encode(line)
    assert read(tmp_path, wordpiece(model.pieces, lowercase=False)).normalization == Normalization(False)


def change(values, path: str, value):
    values = copy.deepcopy(values)
    *parents, last = [int(name) if name.isdigit() else name for name in path.split("/")]
    inner = values
    for name in parents:
        inner = inner[name]
    inner[last] = value
    return values


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("model", {}, "is not a complete tokenizer of transformers .KeyError: 'type'"),
        ("model/type", "CTC", "must have a model of the type Unigram, BPE or WordPiece. Received 'CTC'"),
        ("model/vocab", 7, "is not a complete tokenizer"),
        ("model/vocab/9", ["a"], "is not a complete tokenizer"),
        ("model/vocab/20", ["a", float("nan")], "a piece must be a string with a number"),
        ("model/vocab/20", ["a", 10**400], "is not a complete tokenizer"),
        ("model/vocab/20", ["\ud800", 0.0], "must hold valid Unicode"),
        ("model/vocab/0", ["[PAD]", 0.0], "must be the piece of its id. Received '<pad>' for 0"),
        ("model/unk_id", 5000, "an ALBERT vocabulary must have an unknown piece"),
        ("normalizer/normalizers/2", {"type": "NFC"}, "Received NFC, StripAccents, Lowercase, Precompiled"),
        ("normalizer/normalizers/3", {"type": "Lowercase"}, "ALBERT's normalizers are NFKD with StripAcc"),
        ("normalizer/normalizers/5/precompiled_charsmap", "?", "`precompiled_charsmap` must be base64"),
        ("normalizer/normalizers/5/precompiled_charsmap", "AAAA", "is not"),
        ("pre_tokenizer/pretokenizers/0", {"type": "Digits"}, "Received Digits, Metaspace"),
        ("added_tokens/0/id", 10_000_000, "an added token must be the piece of its id"),
    ],
)
def test_bad_unigrams(model_file, tmp_path, path, value, message):
    with pytest.raises(InputError, match=f"tokenizer.json[^(]*{message}"):
        read(tmp_path, change(unigram(model_file, Normalization()), path, value))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("model/vocab/[SEP]", 77, "the ids of the pieces must be 0, 1, 2"),
        ("model/vocab/[SEP]", "3", "is not a complete tokenizer"),
        ("normalizer/clean_text", False, "WordPiece must have BERT's rules for words"),
        ("normalizer/lowercase", "yes", "Expected `bool`, got `str` - at `..do_lower_case`"),
        ("model/continuing_subword_prefix", "@@", "WordPiece must have BERT's rules for words"),
    ],
)
def test_bad_wordpieces(tmp_path, path, value, message):
    values = wordpiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
    with pytest.raises(InputError, match=f"tokenizer.json[^(]*{message}"):
        read(tmp_path, change(values, path, value))
