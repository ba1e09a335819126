import itertools
import json

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings

from data_prep.in_graph.albert_tokenizer import GraphAlbertTokenizer
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer, normalize
from data_prep.tokenizers.normalization import RELEASED, Normalization
from tests.data_prep.nasty import LINES, texts
from tests.reference.tokenization import encode
from tests.selection import all_but_very_slow


@pytest.fixture(scope="module")
def graph(tokenizer) -> GraphAlbertTokenizer:
    return GraphAlbertTokenizer(tokenizer)


def check_equal(tokenizer, graph, lines):
    """Checks that plain texts, ids and offsets of the graph equal those of the class."""
    plain = [normalize(line, tokenizer.normalization) for line in lines]
    assert [text.decode() for text in graph.normalize(lines).numpy()] == plain
    check_equal_encodings(tokenizer, graph, lines)


def check_equal_encodings(tokenizer, graph, lines):
    """Checks ids, and offsets, which the graph counts in bytes."""
    ids = graph.tokenize(lines).to_list()
    located = graph.tokenize_with_offsets(lines)
    begins, ends = located.begins.to_list(), located.ends.to_list()
    assert ids == located.ids.to_list() == [line.tolist() for line in tokenizer.encode_batch(lines)]
    for i, (line, encoding) in enumerate(zip(lines, tokenizer.encode_batch_with_offsets(lines), strict=True)):
        assert encoding.ids.tolist() == ids[i], line
        bytes_before = np.cumsum([0, *(len(character.encode()) for character in line)])
        expected = bytes_before[encoding.offsets].tolist()
        assert expected == list(map(list, zip(begins[i], ends[i], strict=True))), line


@pytest.mark.slow
def test_equals_the_class(tokenizer, graph):
    check_equal(tokenizer, graph, LINES)
    check_equal(tokenizer, graph, LINES[-1:])
    check_equal(tokenizer, graph, ["", " "])
    assert graph.tokenize(tf.zeros([0], tf.string)).to_list() == []
    assert graph.tokenize_with_offsets(tf.zeros([0], tf.string)).begins.to_list() == []


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(texts(60), texts(), texts())
def test_equals_the_class_on_any_text(tokenizer, graph, a, b, c):
    check_equal(tokenizer, graph, [a, b, c])


@pytest.mark.slow
@pytest.mark.parametrize(
    "normalization",
    all_but_very_slow(
        itertools.starmap(Normalization, itertools.product([True, False], repeat=3)), [RELEASED]
    ),
    ids=str,
)
def test_equals_the_class_with_any_normalization(model_file, normalization):
    normalized = AlbertTokenizer(model_file, normalization)
    graph = GraphAlbertTokenizer(normalized)
    check_equal(
        normalized, graph, [*LINES, "Schöne  Bu\u0308cher\u3000", " \t が か\u3099ｶﾞ ", "İΣ Á\u0323Σ", ""]
    )
    characters = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000]
    # Each after a capital and before a sigma, whose lower case depends on its neighbours; then alone.
    lines = ["".join(f"A{c}Σ " for c in characters[i : i + 2000]) for i in range(0, 0x32000, 2000)]
    lines += ["".join(characters[i : i + 5000]) for i in range(0x32000, len(characters), 5000)]
    expected = [normalize(line, normalized.normalization) for line in lines]
    assert [text.decode() for text in graph.normalize(lines).numpy()] == expected


@pytest.fixture(scope="module")
def keeping(model_file):
    """A tokenizer that keeps accents and spaces, and its graph."""
    tokenizer = AlbertTokenizer(model_file, Normalization(keep_accents=True, remove_space=False))
    return tokenizer, GraphAlbertTokenizer(tokenizer)


@pytest.mark.very_slow
@settings(max_examples=50, deadline=None)
@given(texts(60), texts())
def test_equals_the_class_on_any_text_with_accents(keeping, a, b):
    check_equal(*keeping, [a, b])


@pytest.mark.very_slow
@pytest.mark.parametrize(
    "rules",
    [
        {"normalization_rule_name": "nmt_nfkc_cf"},  # folds case itself: ß becomes ss
        {"normalization_rule_name": "identity", "remove_extra_whitespaces": False},
        {"normalization_rule_name": "nfkc", "add_dummy_prefix": False},
    ],
)
def test_models_with_other_normalization_rules(story, tmp_path, rules):
    sentencepiece.SentencePieceTrainer.train(
        **{"input": str(story), "model_prefix": str(tmp_path / "m"), "vocab_size": 100, "minloglevel": 2},
        **{"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": "[CLS],[SEP],[MASK]"},
        **rules,
    )
    tokenizer = AlbertTokenizer(tmp_path / "m.model")
    check_equal(tokenizer, GraphAlbertTokenizer(tokenizer), LINES)


@pytest.mark.slow
def test_broken_utf8_is_replaced(tokenizer, graph):
    raw = [b"the\xffcaptain", b"\xe2\x82 300, \xed\xa0\x80 apples,", b"\xc0\x80", b"caf\xc3"]
    expected = tokenizer.encode_batch([line.decode("utf-8", "replace") for line in raw])
    assert graph.tokenize(raw).to_list() == [ids.tolist() for ids in expected]
    located = graph.tokenize_with_offsets([b"\xff\xff300,"])
    assert located.ends.to_list()[0][-1] == 6  # bytes of the input, not of its replacement


def test_in_a_tf_data_pipeline(tokenizer, graph):
    dataset = tf.data.Dataset.from_tensor_slices(LINES).batch(3).map(graph.tokenize, num_parallel_calls=2)
    ids = [line for batch in dataset for line in batch.to_list()]
    assert ids == [line.tolist() for line in tokenizer.encode_batch(LINES)]


@pytest.mark.slow
def test_a_huge_line_among_short_ones(tokenizer, graph):
    lines = ["the captain", "sailed past, 300 ﷺ " * 2_000, "", "apples,"] * 2
    check_equal(tokenizer, graph, lines)


def mixed_lines(data, count: int) -> list[str]:
    """Real lines (English, German, Japanese and Chinese prose, GLUE, SQuAD) and difficult ones."""
    files = sorted(
        [*data.glob("books_en/*.md"), *data.glob("multilingual/*/*.txt"), *data.glob("glue/*/*.tsv")]
    )
    sources = [path.read_text("utf-8", errors="replace").split("\n") for path in files]
    for path in sorted([*data.glob("squad/*.json"), *data.glob("squad/xquad/*.json")]):
        articles = json.loads(path.read_text("utf-8"))["data"]
        sources.append([p["context"] for article in articles for p in article["paragraphs"]])
    each = count // len(sources) + 1
    lines = [line for lines in sources for line in lines[:: max(1, len(lines) // each)][:each]]
    return [*lines[: count - len(LINES)], *LINES]


@pytest.mark.very_slow
def test_ten_thousand_real_lines(real_model_file, tmp_path):
    lines = mixed_lines(real_model_file.parents[1], 10_000)
    tokenizer = AlbertTokenizer(real_model_file)
    model = sentencepiece.SentencePieceProcessor(model_file=str(real_model_file))
    graph = GraphAlbertTokenizer(tokenizer)
    check_equal(tokenizer, graph, lines)
    for line, ids in zip(lines, tokenizer.encode_batch(lines), strict=True):
        assert ids.tolist() == encode(model, line)

    tf.saved_model.save(graph, str(tmp_path / "export"))
    loaded = tf.saved_model.load(str(tmp_path / "export"))
    dataset = tf.data.Dataset.from_tensor_slices(lines).batch(500)
    mapped, exported = dataset.map(graph.tokenize_with_offsets), map(loaded.tokenize_with_offsets, dataset)
    for ours, theirs in zip(mapped, exported, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert a.to_list() == b.to_list()
