import numpy as np
import pytest
import tensorflow as tf

from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary
from export.write import export_model
from tests.data_prep.nasty import LINES
from tests.export.conftest import write_source

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(exported):
    return exported("preprocessor", seq_length=12)


@pytest.fixture(scope="module")
def preprocessor(folder):
    return tf.saved_model.load(folder)


def packed(segments: list[list[int]], length: int) -> tuple[list[int], list[int], list[int]]:
    """[CLS] a [SEP] b [SEP], one token from each segment in turn until the row is full."""
    room = length - len(segments) - 1
    kept: list[list[int]] = [[] for _ in segments]
    while sum(map(len, kept)) < room and kept != segments:
        for i, segment in enumerate(segments):
            if sum(map(len, kept)) < room:
                kept[i] = segment[: len(kept[i]) + 1]
    ids = [2] + [i for segment in kept for i in [*segment, 3]]
    types = [0] + [n for n, segment in enumerate(kept) for _ in [*segment, 3]]
    padding = [0] * (length - len(ids))
    return ids + padding, [1] * len(ids) + padding, types + padding


def assert_packed(outputs, segments, length: int) -> None:
    expected = zip(*(packed(list(row), length) for row in zip(*segments, strict=True)), strict=True)
    for name, rows in zip(("input_word_ids", "input_mask", "input_type_ids"), expected, strict=True):
        assert outputs[name].dtype == tf.int32
        np.testing.assert_array_equal(outputs[name], list(rows), err_msg=name)


def test_tokenize_equals_the_class(preprocessor, tokenizer):
    ids = preprocessor.tokenize(tf.constant(LINES))
    assert ids.to_list() == [line.tolist() for line in tokenizer.encode_batch(LINES)]
    assert ids.shape.rank == 2


@pytest.mark.very_slow
def test_assets_are_a_vocabulary_with_its_normalization(model_file, tmp_path):
    """Whoever uses the SavedModel's vocabulary gets the ids that the SavedModel computes."""
    normalization = Normalization(do_lower_case=False, keep_accents=True)
    vocabulary = Vocabulary("sentencepiece", model_file.read_bytes(), normalization)
    source = write_source(tmp_path / "source", vocabulary=vocabulary)
    export_model(source, tmp_path / "saved", "preprocessor", seq_length=12)
    found = Vocabulary.read(tmp_path / "saved" / "assets" / "spm.model")
    assert (found.normalization, found.content) == (normalization, vocabulary.content)
    ids = tf.saved_model.load(tmp_path / "saved").tokenize(tf.constant(LINES)).to_list()
    assert ids == [line.tolist() for line in found.tokenizer().encode_batch(LINES)]


def test_call(preprocessor, tokenizer):
    outputs = preprocessor(tf.constant(LINES))
    assert_packed(outputs, [[line.tolist() for line in tokenizer.encode_batch(LINES)]], 12)
    served = preprocessor.signatures["serving_default"](text=tf.constant(LINES))
    for name, array in outputs.items():
        np.testing.assert_array_equal(served[name], array)
    assert preprocessor(tf.zeros([0], tf.string))["input_word_ids"].shape == (0, 12)


@pytest.mark.parametrize("length", [5, 9, 16, 40])
def test_pairs_lose_tokens_of_the_longer_one_first(preprocessor, tokenizer, length):
    a, b = LINES[:9], LINES[9:18]
    segments = [preprocessor.tokenize(tf.constant(texts)) for texts in (a, b)]
    outputs = preprocessor.bert_pack_inputs(segments, seq_length=length)
    assert_packed(outputs, [[i.tolist() for i in tokenizer.encode_batch(texts)] for texts in (a, b)], length)


def test_one_segment_and_words(preprocessor):
    """Callers of TF-Hub modules may pass or omit the length, and may have a dimension of words."""
    rows = [[7, 8, 9], []]
    single = tf.ragged.constant(rows, dtype=tf.int32)
    assert_packed(preprocessor.bert_pack_inputs([single]), [rows], 12)
    assert_packed(preprocessor.bert_pack_inputs([single], tf.constant(4)), [rows], 4)
    words = tf.ragged.constant([[[7, 8], [9]], []], dtype=tf.int32, ragged_rank=2)
    assert_packed(preprocessor.bert_pack_inputs([words, words], 7), [rows, rows], 7)


def test_packing_is_traced_once_where_shapes_are_unknown(folder):
    """As in tf.data. A call outside a function is traced for every shape."""
    loaded = tf.saved_model.load(folder)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def packed_texts(texts):
        segment = loaded.tokenize(texts)
        return loaded.bert_pack_inputs([segment, segment], 9)["input_word_ids"]

    for B in range(5):
        assert packed_texts(tf.constant(LINES[:B], tf.string)).shape == (B, 9)
    assert loaded.bert_pack_inputs.experimental_get_tracing_count() == 1


def test_special_tokens(preprocessor, tokenizer):
    tokens = {name: int(i) for name, i in preprocessor.tokenize.get_special_tokens_dict().items()}
    assert tokens == {
        "start_of_sequence_id": 2,
        "end_of_segment_id": 3,
        "padding_id": 0,
        "mask_id": 4,
        "vocab_size": tokenizer.vocab_size,
    }
