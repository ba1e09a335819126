import io
import json

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

from data_prep.tokenizers import tokenizer_json_writing
from data_prep.tokenizers.charsmap import charsmap_keys
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.tokenizer_json import other_ids, read_tokenizer_json
from data_prep.tokenizers.tokenizer_json_writing import write_tokenizer_json
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.data_prep.nasty import LINES
from tests.selection import all_but_very_slow

KEPT = Normalization(keep_accents=True)
CASED = Normalization(do_lower_case=False, keep_accents=True)
TEXT = [
    "the captain mends nets in the harbour, 35, 5, 10 and -.",
    "항구는 아침 한국어",
    "छोटा हिन्दी ผู้หญิงทำน้ำ",
    "οδος οδοσ θαλασσα",
    "cafe café Ёлка ёлка \u064e\u0651",
]


def trained(lines, **options) -> bytes:
    """The SentencePiece model of a few lines, with every character a piece."""
    model = io.BytesIO()
    settings = {
        "vocab_size": 110, "control_symbols": ["[CLS]", "[SEP]", "[MASK]"], "pad_id": 0, "unk_id": 1,
        "bos_id": -1, "eos_id": -1, "character_coverage": 1.0, "hard_vocab_limit": False, "minloglevel": 2,
    }  # fmt: skip
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 5), model_writer=model, **settings | options
    )
    return model.getvalue()


VOCABULARIES = {
    "released rules": (Normalization(), {}),
    "accents kept": (KEPT, {}),
    "cased": (CASED, {}),
    "white space kept": (Normalization(remove_space=False), {}),
    "symbols": (Normalization(), {"user_defined_symbols": ["-", "<num>", "("]}),
    "byte_fallback": (Normalization(), {"byte_fallback": True, "vocab_size": 400}),
    "suffix": (Normalization(), {"treat_whitespace_as_suffix": True}),
    "pieces of several words": (Normalization(), {"split_by_whitespace": False}),
    "no dummy prefix": (Normalization(), {"add_dummy_prefix": False}),
    "bpe": (KEPT, {"model_type": "bpe", "vocab_size": 160}),
    "bpe with bytes": (Normalization(), {"model_type": "bpe", "byte_fallback": True, "vocab_size": 400}),
    "char": (Normalization(), {"model_type": "char"}),
    "identity": (CASED, {"normalization_rule_name": "identity"}),
    "nfkc": (KEPT, {"normalization_rule_name": "nfkc"}),
    "case folding": (Normalization(), {"normalization_rule_name": "nmt_nfkc_cf"}),
}
# [MASK] and so on are symbols in transformers; of "\x01" a suffix remains here.
NASTY = [line for line in LINES if "[MASK]" not in line and line != "\x01"]
REPORTED = [
    "항구는 아침", "\u1112\u1161\u11bc\u1100\u116e\u1102\u1173\u11ab", "छोटा", "5\ufe0f\u20e3 a\ufe0f", "ΟΔΟΣ",
    "☂ <0x41>", "the harbour", "mend nets", "\u0651\u064e",
]  # fmt: skip


@pytest.fixture
def few_trials(monkeypatch):
    lines = tokenizer_json_writing._LINES
    monkeypatch.setattr(tokenizer_json_writing, "_trial_lines", lambda proto, rules: iter(lines))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    all_but_very_slow(VOCABULARIES, ("released rules", "accents kept", "suffix", "bpe with bytes", "char")),
)
def test_ids_of_a_written_file(few_trials, tmp_path, kind):
    """Those of tokenizers, and of this library when it reads the file."""
    rules, options = VOCABULARIES[kind]
    vocabulary = Vocabulary("sentencepiece", trained(TEXT, **options), rules)
    path = tmp_path / "tokenizer.json"
    note = write_tokenizer_json(vocabulary, path)
    assert note == "" or "numbers with a comma" in note
    ours, theirs = vocabulary.tokenizer(), Tokenizer.from_file(str(path))
    found = read_tokenizer_json(path)
    assert found.normalization == rules
    assert other_ids(path) == ""
    for line in NASTY + REPORTED:
        assert found.tokenizer().encode(line) == ours.encode(line)
        if not any(digit + "," in line for digit in "0123456789²³５６٣٤①⑩"):
            assert theirs.encode(line, add_special_tokens=False).ids == ours.encode(line), line


@pytest.mark.very_slow
def test_all_characters_are_tried(model_file, tmp_path):
    for rules in (Normalization(), KEPT, CASED):
        vocabulary = Vocabulary("sentencepiece", model_file.read_bytes(), rules)
        assert write_tokenizer_json(vocabulary, tmp_path / "tokenizer.json") == ""


@pytest.mark.parametrize("kind", ["word", "another table", "extra white space"])
def test_what_would_get_other_ids_is_not_written(few_trials, monkeypatch, tmp_path, kind):
    options = {"model_type": "word", "vocab_size": 25} if kind == "word" else {}
    if kind == "another table":
        (tmp_path / "rules.tsv").write_text("63 61 66\t78\n")  # "caf" is "x"
        options = {"normalization_rule_tsv": str(tmp_path / "rules.tsv")}
    proto = sentencepiece_model_pb2.ModelProto.FromString(trained(TEXT, **options))
    proto.normalizer_spec.remove_extra_whitespaces = kind != "extra white space"
    vocabulary = Vocabulary("sentencepiece", proto.SerializeToString(), Normalization())
    if kind == "another table":
        keys = charsmap_keys(proto.normalizer_spec.precompiled_charsmap)
        assert keys == ["caf"]
        monkeypatch.setattr(tokenizer_json_writing, "_trial_lines", lambda proto, rules: iter(["a", "acafb"]))
    note = write_tokenizer_json(vocabulary, tmp_path / "tokenizer.json")
    assert "no tokenizer.json" in note and "reads as a Unigram model" in note
    assert not (tmp_path / "tokenizer.json").exists()


def test_numbers_with_other_ids_are_told(few_trials, tmp_path):
    """ALBERT splits "12," after it was chosen; without that piece, another segmentation may be better."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(trained(TEXT))
    for piece, score in (("▁12,", -1.0), ("000", -1.0), (",000", -1.0), ("▁12", -5.0)):
        proto.pieces.add(piece=piece, score=score)
    vocabulary = Vocabulary("sentencepiece", proto.SerializeToString(), Normalization())
    note = write_tokenizer_json(vocabulary, tmp_path / "tokenizer.json")
    assert "some numbers with a comma, such as '12,000'" in note


def test_pairs_are_two_segments(few_trials, tmp_path):
    vocabulary = Vocabulary("sentencepiece", trained(TEXT), Normalization())
    write_tokenizer_json(vocabulary, tmp_path / "tokenizer.json")
    pair = Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("the", "nets")
    assert pair.tokens[0] == "[CLS]" and pair.tokens.count("[SEP]") == 2
    assert sorted(set(pair.type_ids)) == [0, 1]
    assert json.loads((tmp_path / "tokenizer.json").read_text())["model"]["type"] == "Unigram"
