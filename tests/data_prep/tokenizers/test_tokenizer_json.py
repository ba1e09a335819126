import base64
import copy
import json

import pytest
from hypothesis import given, settings
from sentencepiece import sentencepiece_model_pb2

from data_prep.errors import InputError
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.tokenizer_json import gives_other_ids, read_tokenizer_json, write_tokenizer_json
from data_prep.tokenizers.vocabulary import Vocabulary
from data_prep.tokenizers.wordpiece_tokenizer import WordPieceTokenizer
from tests.data_prep.nasty import LINES, texts
from tests.data_prep.wordpieces import vocab_file  # noqa: F401 - a fixture


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


@pytest.mark.parametrize(
    "normalization", [Normalization(), Normalization(keep_accents=True), Normalization(do_lower_case=False)]
)
def test_written_and_read(model_file, tmp_path, normalization):
    """Also text with digits and commas, whose pieces the file hides."""
    vocabulary = Vocabulary("sentencepiece", model_file.read_bytes(), normalization)
    assert write_tokenizer_json(vocabulary, tmp_path / "tokenizer.json")
    found = read_tokenizer_json(tmp_path / "tokenizer.json")
    assert found.normalization == normalization
    assert not gives_other_ids(tmp_path / "tokenizer.json")
    for line in LINES:
        assert found.tokenizer().encode(line) == vocabulary.tokenizer().encode(line)


@pytest.mark.parametrize("rule", ["replacement", "added token", "piece"])
def test_rules_that_give_other_ids_in_transformers(model_file, tmp_path, rule):
    vocabulary = Vocabulary("sentencepiece", model_file.read_bytes())
    write_tokenizer_json(vocabulary, tmp_path / "tokenizer.json")
    values = json.loads((tmp_path / "tokenizer.json").read_text())
    if rule == "replacement":
        step = {"type": "Replace", "pattern": {"String": "``"}, "content": '"'}
        values["normalizer"]["normalizers"].insert(0, step)
    elif rule == "added token":
        values["added_tokens"].append(
            {**values["added_tokens"][0], "id": 9, "content": "-", "special": False}
        )
    else:
        values["model"]["vocab"].append(("\u25811,", -3.0))
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    assert gives_other_ids(tmp_path / "tokenizer.json")


def test_unusual_rules_for_spaces_are_not_written(model_file, tmp_path):
    proto = sentencepiece_model_pb2.ModelProto.FromString(model_file.read_bytes())
    proto.normalizer_spec.add_dummy_prefix = False
    vocabulary = Vocabulary("sentencepiece", proto.SerializeToString(), Normalization())
    assert not write_tokenizer_json(vocabulary, tmp_path / "tokenizer.json")
    assert not list(tmp_path.iterdir())


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
    for ours, theirs in zip(
        converted.encode_batch_with_offsets(LINES), model.encode_batch_with_offsets(LINES), strict=True
    ):
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.offsets.tolist() == theirs.offsets.tolist()


@settings(deadline=None)
@given(texts(60))
def test_ids_of_any_text_equal_the_model(both, text):
    model, converted = both
    assert converted.encode(text) == model.encode(text)


@pytest.mark.parametrize("normalization", [Normalization(a, b) for a in (True, False) for b in (True, False)])
def test_normalization(model_file, tmp_path, normalization):
    assert read(tmp_path, unigram(model_file, normalization)).normalization == normalization


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
        ("model/type", "BPE", "must have a model of the type Unigram or WordPiece. Received 'BPE'"),
        ("model/vocab", 7, "is not a complete tokenizer"),
        ("model/vocab/9", ["a"], "is not a complete tokenizer"),
        ("model/vocab/20", ["a", float("nan")], "a piece must be a string with a number"),
        ("model/vocab/20", ["a", 10**400], "is not a complete tokenizer"),
        ("model/vocab/20", ["\ud800", 0.0], "must hold valid Unicode"),
        (
            "model/vocab/0",
            ["[PAD]", 0.0],
            "an added token must be the piece of its id. Received '<pad>' for 0",
        ),
        ("model/unk_id", 5000, "an ALBERT vocabulary must have an unknown piece and no byte_fallback"),
        ("model/byte_fallback", True, "an ALBERT vocabulary must have an unknown piece and no byte_fallback"),
        ("normalizer/normalizers/2", {"type": "NFC"}, "Received NFC, StripAccents, Lowercase, Precompiled"),
        (
            "normalizer/normalizers/3",
            {"type": "Lowercase"},
            "ALBERT's normalizers are NFKD with StripAccents",
        ),
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
        ("normalizer/lowercase", "yes", "`do_lower_case` must be true or false. Received 'yes'"),
        ("model/continuing_subword_prefix", "@@", "WordPiece must have BERT's rules for words"),
    ],
)
def test_bad_wordpieces(tmp_path, path, value, message):
    values = wordpiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
    with pytest.raises(InputError, match=f"tokenizer.json[^(]*{message}"):
        read(tmp_path, change(values, path, value))
