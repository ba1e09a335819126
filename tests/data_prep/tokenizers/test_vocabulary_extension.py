"""Pieces that are appended to a vocabulary: chosen by what they save, and without effect on other text."""

import dataclasses
import io
from collections import Counter

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from albert_cli.cli import main
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.checkpoints.tf1 import write_tf1
from data_prep.errors import InputError
from data_prep.in_graph import make_graph_tokenizer
from data_prep.tokenizers.tokenizer_json_writing import write_tokenizer_json
from data_prep.tokenizers.vocabulary import Vocabulary
from data_prep.tokenizers.vocabulary_extension import extend_vocabulary, replaced_pieces
from data_prep.tokenizers.wordpiece_tokenizer import WordPieceTokenizer
from tests.albert_tf.checkpoints.random_models import random_weights
from tests.albert_tf.tasks.files import CONFIG
from tests.commands import refused, run
from tests.data_prep.in_graph.test_albert_in_graph import check_equal_encodings
from tests.data_prep.nasty import LINES, texts
from tests.data_prep.wordpieces import vocab_file  # noqa: F401  a fixture

NAMES = ["Norblak", "Veltrim", "Veltrona", "HV-200", "Covid-19", "Grökik"]
TEXT = [
    "The Norblak sailed past the Veltrim; HV-200, HV-200 and Covid-19,5.",
    "(Norblak) Veltrona's lighthouse: Norblak! norblakes, hv-2000, grökik",
    "Her norblak had forgotten Veltrona in 1987, covid-19",
]


@pytest.fixture(scope="module")
def old(model_file) -> Vocabulary:
    return Vocabulary.read(model_file)


@pytest.fixture(scope="module")
def longer(old) -> Vocabulary:
    """The story's vocabulary with the names."""
    return extend_vocabulary(old, NAMES, 200)


def pieces_of(vocabulary: Vocabulary, text: str) -> list[str]:
    tokenizer = vocabulary.tokenizer()
    return [tokenizer.pieces[i] for i in tokenizer.encode(text)]


def test_each_word_becomes_a_piece(old, longer):
    assert longer.tokenizer().pieces[: old.count_pieces()] == old.tokenizer().pieces
    new = set(longer.tokenizer().pieces[old.count_pieces() :])
    names = ["▁norblak", "▁veltrim", "▁veltrona", "▁hv-200", "▁covid-19", "▁grokik"]
    assert new == set(names)
    for piece, name in zip(names, NAMES, strict=True):
        assert pieces_of(longer, f"{name}, {name}") == [piece, ",", piece]
    assert "▁norblak" in pieces_of(longer, TEXT[0])


_WORDS = st.sampled_from(
    [
        *NAMES,
        *["norblakes", "Norb", "hv-2000", "hv-20", "covid-191,", "apples,", "1987.", "(", "'", "-", "▁"],
        "",
    ]
)


@given(st.lists(st.one_of(_WORDS, texts(8)), max_size=8), st.sampled_from(["", " "]))
def test_other_text_keeps_its_ids(old, longer, parts, between):
    """Text without a new piece has the same ids; text with some has the same characters in its pieces."""
    text = between.join(parts)
    ids, expected = longer.tokenizer().encode(text), pieces_of(old, text)
    segmented = "".join(expected)
    if not any(piece in segmented for piece in longer.tokenizer().pieces[100:]):
        assert ids == old.tokenizer().encode(text)
    assert "".join(pieces_of(longer, text)) == segmented
    assert len(ids) <= len(expected)


def test_scores(old, longer):
    """None is below the lowest before, on which unknown characters depend."""
    scores = [
        [piece.score for piece in sentencepiece_model_pb2.ModelProto.FromString(each.content).pieces]
        for each in (old, longer)
    ]
    assert scores[1][:100] == scores[0]
    assert min(scores[1]) == min(scores[0])


def test_a_long_text(longer):
    """It is cut where no new piece goes across."""
    text = " ".join(TEXT) * 300
    assert len(text) > 1 << 15
    assert pieces_of(longer, text).count("▁norblak") == 1200
    parts = [piece for line in TEXT for piece in pieces_of(longer, line)]
    assert pieces_of(longer, " ".join(TEXT)) == parts


def test_what_saves_most_comes_first(old):
    """As a count of all runs that begin a word says."""
    longer = extend_vocabulary(old, TEXT, 120)
    tokenizer = old.tokenizer()
    savings: Counter = Counter()
    for text in TEXT:
        word: list[str] = []
        for piece in [*(tokenizer.pieces[i] for i in tokenizer.encode(text)), "▁"]:
            if piece.startswith("▁") or not piece.isalnum():
                for end in range(2, len(word) + 1):
                    savings["".join(word[:end])] += end - 1
                word = []
            word += [piece] * (piece.removeprefix("▁").isalnum() or piece == "▁")
    assert savings[longer.tokenizer().pieces[100]] == max(savings.values())
    assert longer == extend_vocabulary(old, iter(TEXT), 120)


def test_a_stem_that_longer_pieces_make_superfluous_is_left_out(old):
    """Of the text's words all become pieces, though their stem saves most at first."""
    words = ["veltronika veltronium veltronople"]
    first, all_words = (
        extend_vocabulary(old, words, vocab_size).tokenizer().pieces[100:] for vocab_size in (101, 103)
    )
    assert first == ("▁veltron",)
    assert set(all_words) == {f"▁{word}" for word in words[0].split()}


@pytest.mark.slow
def test_graph_and_offsets(longer):
    tokenizer = longer.tokenizer()
    check_equal_encodings(tokenizer, make_graph_tokenizer(tokenizer), [*TEXT, *LINES])
    encoding = tokenizer.encode_with_offsets(TEXT[1])
    spans = [TEXT[1][begin:end] for begin, end in encoding.offsets]
    assert spans[spans.index("Veltrona") + 1 :][:2] == ["'", "s"]


def test_tokenizer_json(longer, tmp_path):
    from tokenizers import Tokenizer

    assert "comma" in (write_tokenizer_json(longer, tmp_path / "tokenizer.json") or "comma")
    theirs, ours = Tokenizer.from_file(str(tmp_path / "tokenizer.json")), longer.tokenizer()
    for line in [*TEXT, *NAMES, "covid-191 hv-2000"]:
        ids = ours.encode(line)
        if not any(f"{digit}," in line for digit in range(10)):
            assert theirs.encode(line, add_special_tokens=False).ids == ids, line


def test_wordpiece(vocab_file):  # noqa: F811
    old = Vocabulary.read(vocab_file)
    text = ["A captain loads apples, 我喜欢 kcal; load it"]
    new = extend_vocabulary(old, text, 200)
    assert isinstance(new.tokenizer(), WordPieceTokenizer)
    assert new.tokenizer().pieces[:96] == old.tokenizer().pieces
    added = new.tokenizer().pieces[96:]
    assert set(added) == {"load", "loads", "kcal", "apples", "it"}
    other = "un aff 北京 transformers! captain"
    assert new.tokenizer().encode(other) == old.tokenizer().encode(other)
    parts = dict(zip(added, replaced_pieces(old, new), strict=True))
    assert list(parts["loads"]) == old.tokenizer().encode("loads")
    further = dataclasses.replace(new, content=new.content + b"##loads\n")
    assert [old.tokenizer().pieces[i] for i in replaced_pieces(old, further)[-1]] == [
        "##l",
        "##o",
        "##a",
        "##d",
        "##s",
    ]


def test_what_cannot_be_extended(old, longer):
    with pytest.raises(
        InputError, match=f"larger than the number of pieces of {old.file}, 100. Received 100"
    ):
        extend_vocabulary(old, TEXT, 100)
    with pytest.raises(InputError, match="splits no word of this text"):
        extend_vocabulary(longer, NAMES, 1000)
    with pytest.raises(InputError, match="begins with the .* pieces of its own"):
        replaced_pieces(longer, old)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, model_type="bpe", vocab_size=60, minloglevel=2,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"], pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
    )  # fmt: skip
    with pytest.raises(InputError, match="of the type Unigram"):
        extend_vocabulary(Vocabulary("sentencepiece", model.getvalue()), TEXT, 1000)


def test_the_command(old, vocab_file, tmp_path, capfd):  # noqa: F811
    """From a file of either kind and from a model; nothing is written on a mistake."""
    (tmp_path / "names.txt").write_text("\n".join(NAMES).lower(), encoding="utf-8")
    common = ["vocab", f"--input_file={tmp_path}/names.txt", "--vocab_size=120"]
    first = [*common, f"--extend={old.file}", f"--output_prefix={tmp_path}/own/first"]
    status, out, error = run(capfd, *first)
    assert (status, out.strip()) == (0, f"{tmp_path}/own/first.model")
    assert "6 new pieces, ▁covid-19, " in error and "6 sentences have 6 pieces in place of 42" in error
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["first.model"]
    assert "only replaced with --overwrite" in refused(capfd, *first)
    again = [*common, f"--extend={tmp_path}/own/first.model", f"--output_prefix={tmp_path}/again"]
    assert "splits no word of this text" in refused(capfd, *again)
    assert not (tmp_path / "again.model").exists()

    cased = dataclasses.replace(old.normalization, do_lower_case=False)
    weights, path = random_weights(CONFIG), tmp_path / "nowhere"
    stored = StoredModel("run", path, CONFIG, weights, dataclasses.replace(old, normalization=cased))
    for name, each in (("with", stored), ("without", dataclasses.replace(stored, vocabulary=None))):
        (tmp_path / name).mkdir()
        write_tf1(each, tmp_path / name)
    of_model = [*common, f"--output_prefix={tmp_path}/cased", "--extend"]
    assert f"which {tmp_path}/without does not hold" in refused(capfd, *of_model, tmp_path / "without")
    assert main([*of_model, str(tmp_path / "with")]) == 0
    assert Vocabulary.read(tmp_path / "cased.model").normalization == cased

    words = [*common, f"--extend={vocab_file}", f"--output_prefix={tmp_path}/words"]
    assert main(words) == 0
    proto = sentencepiece_model_pb2.ModelProto.FromString((tmp_path / "own/first.model").read_bytes())
    assert proto.trainer_spec.vocab_size == len(proto.pieces) == 106
    assert Vocabulary.read(tmp_path / "words.txt").count_pieces() == 99
