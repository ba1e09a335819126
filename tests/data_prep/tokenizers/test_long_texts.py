"""Long texts in parts: the ids and offsets of the whole."""

import io

import numpy as np
import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_prep.in_graph import albert_tokenizer as in_graph
from data_prep.in_graph import make_graph_tokenizer
from data_prep.tokenizers import albert_tokenizer, long_texts
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.normalization import RELEASED, Normalization

TEXT = "the harbour, in 2019, was quiet. café ﬁnal ab abc abcd (see the captain) 한국 여행 ab ab\n"
KINDS = {
    "unigram": {},
    "identity": {"normalization_rule_name": "identity"},
    "bytes": {"byte_fallback": True, "vocab_size": 400},
    "bpe": {"model_type": "bpe"},
    "char": {"model_type": "char"},
    "word": {"model_type": "word", "vocab_size": 20},
    "suffix": {"treat_whitespace_as_suffix": True},
    "across spaces": {"split_by_whitespace": False},
    "no dummy": {"add_dummy_prefix": False},
    "spaces kept": {"remove_extra_whitespaces": False},
}
# Unknown and known characters, those that Unicode or a rule joins or expands, and spaces of all kinds.
PARTS = [*"字本բaéﬁ½ﷺ가각,Σ(😀カ゛ﾞ▁\u200b\x01\u3000 "]
PARTS += ["ab", "the", "e\u0301", "\u0327\u0301", "2,", "  ", "[MASK]"]
TEXTS = st.lists(st.tuples(st.sampled_from(PARTS), st.integers(1, 9)), max_size=12).map(
    lambda runs: "".join(text * count for text, count in runs)
)


def made(normalization: Normalization = RELEASED, **options) -> AlbertTokenizer:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.split(" ") * 3 + [TEXT] * 3),
        model_writer=model,
        **{
            "vocab_size": 90, "hard_vocab_limit": False, "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1,
            "control_symbols": ["[CLS]", "[SEP]", "[MASK]"], "user_defined_symbols": ["(", "."],
            "minloglevel": 2,
        } | options,
    )  # fmt: skip
    return AlbertTokenizer("spm.model", normalization, content=model.getvalue())


@pytest.fixture(params=KINDS, scope="module")
def tokenizer(request):
    return made(Normalization(remove_space=request.param != "spaces kept"), **KINDS[request.param])


@pytest.fixture
def short_parts(monkeypatch):
    for module in (albert_tokenizer, in_graph):
        monkeypatch.setattr(module, "LONGEST_WHOLE", 2)
    for module in (long_texts, in_graph):
        monkeypatch.setattr(module, "PART", 3)


@pytest.mark.very_slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS, most=st.integers(0, 9))
def test_parts_give_the_whole(tokenizer, short_parts, text, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(albert_tokenizer, "LONGEST_WHOLE", 1000)
        whole = tokenizer.encode_with_offsets(text)
    parts = tokenizer.encode_with_offsets(text)
    assert parts.ids.tolist() == tokenizer.encode(text) == whole.ids.tolist()
    assert parts.offsets.tolist() == whole.offsets.tolist()
    (first,) = tokenizer.encode_batch([text], most)
    assert first[:most].tolist() == whole.ids[:most].tolist()
    assert (len(first) > most) == (len(whole.ids) > most)


@pytest.mark.very_slow
def test_the_graph_gives_the_whole(tokenizer, short_parts):
    graph = make_graph_tokenizer(tokenizer)

    @settings(max_examples=60, deadline=None)
    @given(st.lists(TEXTS, min_size=1, max_size=4))
    def check(texts):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(albert_tokenizer, "LONGEST_WHOLE", 1000)
            whole = tokenizer.encode_batch_with_offsets(texts)
        ids, begins, ends = graph.tokenize_with_offsets(texts)
        assert ids.to_list() == graph.tokenize(texts).to_list() == [one.ids.tolist() for one in whole]
        for text, one, *offsets in zip(texts, whole, begins.to_list(), ends.to_list(), strict=True):
            widths = np.cumsum([0, *(len(character.encode()) for character in text)])
            assert offsets == widths[one.offsets].T.tolist()

    check()


def test_where_texts_are_cut():
    tokenizer = made()
    run = 10 * long_texts.PART * "字"
    parts = [part.text.removeprefix(tokenizer.cuts.lead) for part in tokenizer.cuts.parts(run)]
    assert [len(part) for part in parts] == 10 * [long_texts.PART]
    parts = tokenizer.cuts.parts("the harbour" * 5000)
    words = [part.text.removeprefix(tokenizer.cuts.lead) for part in parts]
    assert "".join(words) == "the harbour" * 5000
    assert max(map(len, words)) < 2 * long_texts.PART
    assert made(model_type="word", vocab_size=20).cuts is None
    assert made(treat_whitespace_as_suffix=True).cuts is None


def test_only_what_is_needed_is_encoded(monkeypatch):
    tokenizer, encoded = made(), []
    assert tokenizer.cuts
    encode = tokenizer._model.encode
    monkeypatch.setattr(
        tokenizer._model, "encode", lambda *args, **kw: encoded.append(args) or encode(*args, **kw)
    )
    (ids,) = tokenizer.encode_batch(["the harbour " * 100_000], 512)
    assert 512 < len(ids) < 10_000
    assert len(encoded) == 2  # no whole texts, and one part
