"""Examples as arrays: symbols, types, truncation and labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.tasks.choice.features import asked, choice_features
from albert_tf.tasks.choice.rows import ChoiceExample
from albert_tf.tasks.features import pair_lengths
from albert_tf.tasks.texts.features import text_features
from albert_tf.tasks.texts.rows import TextExample
from albert_tf.tasks.words.features import word_features
from albert_tf.tasks.words.rows import WordsExample
from data_prep.errors import InputError
from data_prep.tokenizers.wordpiece_tokenizer import SYMBOLS, WordPieceTokenizer

A, B = "The captain sailed past the lighthouse.", "Nobody noticed 300 apples."


@pytest.fixture(scope="module", params=["sentencepiece", "wordpiece"])
def any_tokenizer(request, tokenizer, tmp_path_factory):
    if request.param == "sentencepiece":
        return tokenizer
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    letters = "abcdefghijklmnopqrstuvwxyz0123456789."
    path.write_text("\n".join([*SYMBOLS, *letters, *(f"##{c}" for c in letters)]), encoding="utf-8")
    return WordPieceTokenizer(path)


def test_a_text_and_a_pair(any_tokenizer):
    cls_id, sep_id = any_tokenizer.cls_id, any_tokenizer.sep_id
    a, b = any_tokenizer.encode(A), any_tokenizer.encode(B)
    single, pair = text_features(
        [TextExample("0", A, label="y"), TextExample("1", A, B)], any_tokenizer, 512, labels=("x", "y")
    )
    assert single["input_ids"].tolist() == [cls_id, *a, sep_id]
    assert single["token_type_ids"].tolist() == [0] * (len(a) + 2)
    assert single["label"] == 1
    assert pair["input_ids"].tolist() == [cls_id, *a, sep_id, *b, sep_id]
    assert pair["token_type_ids"].tolist() == [0] * (len(a) + 2) + [1] * (len(b) + 1)
    assert "label" not in pair
    assert {values.dtype for values in (*single.values(), *pair.values())} == {np.dtype(np.int32)}


def test_a_set_of_labels_is_a_number_for_each_class(any_tokenizer):
    examples = [TextExample("0", A, label=("z", "x")), TextExample("1", B, label=())]
    features = text_features(examples, any_tokenizer, 512, labels=("x", "y", "z"))
    assert [example["label_set"].tolist() for example in features] == [[1, 0, 1], [0, 0, 0]]
    assert features[0]["label_set"].dtype == np.float32
    assert "label" not in features[0]


def test_an_empty_second_text_is_kept(any_tokenizer):
    [features] = text_features([TextExample("0", A, "")], any_tokenizer, 512)
    assert features["input_ids"][-2:].tolist() == [any_tokenizer.sep_id] * 2
    assert features["token_type_ids"][-2:].tolist() == [0, 1]


def test_labels_of_regression_are_numbers(tokenizer):
    [features] = text_features([TextExample("0", A, B, 3.8)], tokenizer, 512)
    assert features["label"].dtype == np.float32
    assert features["label"] == np.float32(3.8)


def test_a_label_outside_the_set(tokenizer):
    with pytest.raises(InputError, match="must be one of x, y. Received 'z'"):
        text_features([TextExample("0", A, label="z")], tokenizer, 512, labels=("x", "y"))


@pytest.mark.parametrize("length", [5, 6, 9, 14, 20])
def test_long_pairs_are_truncated(tokenizer, length):
    a, b = tokenizer.encode(A), tokenizer.encode(B)
    [features] = text_features([TextExample("0", A, B)], tokenizer, length)
    kept_a, kept_b = popped(len(a), len(b), length - 3)
    assert features["input_ids"].tolist() == [
        tokenizer.cls_id, *a[:kept_a], tokenizer.sep_id, *b[:kept_b], tokenizer.sep_id,
    ]  # fmt: skip


def popped(a, b, room):
    """Token by token, from the longer one."""
    while a + b > room:
        if a > b:
            a -= 1
        else:
            b -= 1
    return a, b


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 50))
def test_pair_lengths_equal_popping_tokens(a, b, room):
    assert pair_lengths(a, b, room) == popped(a, b, room)


def test_options_replace_the_gap_or_follow():
    assert asked("Ann is in _ .", "Rome") == "Ann is in Rome ."
    assert asked("Where is Ann?", "Rome") == "Where is Ann? Rome"
    assert asked("____ is in__.", r"\1 _") == r"\1 _ is in\1 _."


def test_choices(any_tokenizer):
    example = ChoiceExample("0", A, "She saw _ .", ("apples", "the old lighthouse"), 1)
    [features] = choice_features([example], any_tokenizer, 512)
    rows = [
        text_features([TextExample("0", A, asked(example.question, option))], any_tokenizer, 512)[0]
        for option in example.options
    ]
    longest = max(len(row["input_ids"]) for row in rows)
    for name in ("input_ids", "token_type_ids"):
        assert features[name].shape == (2, longest)
        assert features[name].dtype == np.int32
        for i, row in enumerate(rows):
            size = len(row[name])
            assert features[name][i, :size].tolist() == row[name].tolist()
            assert features["input_mask"][i].tolist() == [1] * size + [0] * (longest - size)
    assert features["label"] == 1


def test_a_long_passage_loses_its_end_and_a_long_question_its_beginning(tokenizer):
    example = ChoiceExample("0", A * 5, B * 3, ("apples",) * 2)
    passage, query = tokenizer.encode(example.passage), tokenizer.encode(asked(example.question, "apples"))
    [features] = choice_features([example], tokenizer, 40, max_option_length=15)
    expected = [tokenizer.cls_id, *passage[:22], tokenizer.sep_id, *query[-15:], tokenizer.sep_id]
    assert features["input_ids"].tolist() == [expected, expected]
    [features] = choice_features([example], tokenizer, 12)
    assert features["input_ids"][0].tolist() == [
        tokenizer.cls_id, tokenizer.sep_id, *query[-9:], tokenizer.sep_id,
    ]  # fmt: skip


def test_words(any_tokenizer):
    words, labels = ("Unpacked", "in", "\u200b", "1987"), ("B", "O", "O", "I")
    example = WordsExample("0", words, labels)
    [features] = word_features([example], any_tokenizer, 512, ("O", "B", "I"))
    pieces = [any_tokenizer.encode(word) or [any_tokenizer.unk_id] for word in words]
    assert max(map(len, pieces)) > 1, "a word of several pieces is needed"
    flat = [i for ids in pieces for i in ids]
    assert features["input_ids"].tolist() == [any_tokenizer.cls_id, *flat, any_tokenizer.sep_id]
    first = [0, *(j == 0 for ids in pieces for j in range(len(ids))), 0]
    assert features["label_weights"].tolist() == first
    assert features["label_weights"].dtype == np.float32
    assert features["label"][features["label_weights"] > 0].tolist() == [1, 0, 0, 2]
    assert features["word_index"][features["word_index"] >= 0].tolist() == [0, 1, 2, 3]
    assert ((features["word_index"] >= 0) == first).all()


def test_words_beyond_the_longest_sequence(tokenizer):
    words = ("lighthouse",) * 9
    size = len(tokenizer.encode("lighthouse"))
    [features] = word_features([WordsExample("0", words)], tokenizer, 2 + size + 1, ("O",))
    assert features["word_index"].max() == 1
    assert len(features["input_ids"]) == 2 + size + 1
    assert "label" not in features


def test_lengths_that_are_too_small(tokenizer):
    with pytest.raises(InputError, match="`max_seq_length` must be at least 5. Received 4"):
        text_features([TextExample("0", A)], tokenizer, 4)
