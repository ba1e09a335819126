"""Batches of examples in NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.tasks.choice.features import ChoicePreprocessor
from albert_tf.tasks.choice.rows import ChoiceExample
from albert_tf.tasks.spans.rows import QuestionExample
from albert_tf.tasks.splits import USUAL_SIZE, BatchSize, by_row, numpy_batches, padded_batch
from albert_tf.tasks.task import find_task
from albert_tf.tasks.task_batches import BatchOrder, bucketed_batches
from albert_tf.tasks.texts.rows import TextExample
from albert_tf.tasks.words.features import WordsPreprocessor
from albert_tf.tasks.words.rows import WordsExample
from data_prep.errors import InputError
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary


def test_numpy_batches_have_every_row_once_and_rows_of_equal_shape():
    def ids(*shape: int) -> dict[str, np.ndarray]:
        return {"input_ids": np.ones(shape, np.int32), "input_mask": np.ones(shape, np.int32)}

    features = [ids(3, 5), ids(2, 9), ids(3, 4), ids(3, 7)]
    batches = list(numpy_batches(features, BatchSize(2)))
    assert [batch["index"].tolist() for batch in batches] == [[1], [2, 0], [3]]
    assert [batch["input_ids"].shape for batch in batches] == [(1, 2, 9), (2, 3, 5), (1, 3, 7)]
    assert batches[1]["input_mask"].sum(axis=-1).tolist() == [[4] * 3, [5] * 3]


def test_padding():
    def features(*ids: int) -> dict[str, np.ndarray]:
        names = ("input_ids", "token_type_ids", "p_mask", "word_index")
        return {**{name: np.array(ids, np.int32) for name in names}, "label": np.array(ids[0], np.int32)}

    batch = padded_batch([features(5), features(6, 7, 8)])
    expected = {
        "input_ids": [[5, 0, 0], [6, 7, 8]],
        "token_type_ids": [[5, 0, 0], [6, 7, 8]],
        "p_mask": [[5, 1, 1], [6, 7, 8]],  # no token that may be in an answer
        "word_index": [[5, -1, -1], [6, 7, 8]],  # of no word
        "label": [5, 6],
        "input_mask": [[1, 0, 0], [1, 1, 1]],
    }
    assert {name: values.tolist() for name, values in batch.items()} == expected


def test_rows_that_fill_a_batch_are_no_examples():
    outputs = [
        {"index": np.array([2, 0]), "output": np.array([20, 0])},
        {"index": np.array([1, -1]), "output": np.array([10, 99])},
    ]
    assert by_row(outputs, 3) == [{"output": 0}, {"output": 10}, {"output": 20}]


VOCABULARY = Vocabulary("wordpiece", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n")
EXAMPLES = {
    "classification": lambda id_, label: TextExample(id_, "a b", label=label),
    "multi-label-classification": lambda id_, label: TextExample(id_, "a", label=label and (label,)),
    "multiple-choice": lambda id_, label: ChoiceExample(id_, "a", "b", ("a", "b"), label and 1),
    "token-classification": lambda id_, label: WordsExample(id_, ("a", "b"), label and (label, label)),
}


@pytest.mark.slow
@pytest.mark.parametrize("labels", [("x", None), (None, "x"), ("x", "x"), (None, None)])
@pytest.mark.parametrize("name", EXAMPLES)
def test_labels_count_only_if_all_are_known(name, labels, tmp_path):
    """As in a test set, some of whose rows have one."""
    task = find_task(name)
    examples = [EXAMPLES[name](str(i), label) for i, label in enumerate(labels)]
    for cache in (None, tmp_path / "test"):
        split = task.kind.preprocessor(VOCABULARY).split("test", examples, ("x", "y"), cache)
        (batch,) = numpy_batches(split.features)
        (same,) = bucketed_batches(split.features, 2, BatchOrder(None)).as_numpy_iterator()
        assert batch.keys() == same.keys() - {"sample_weight"}
        assert ({"label", "label_set"} & batch.keys() != set()) == all(labels)


def test_words_beyond_the_longest_sequence():
    """Of four words, [CLS] and [SEP] leave room for three."""
    examples = [WordsExample(str(words), ("a",) * words) for words in (1, 4)]
    preprocessor = WordsPreprocessor(VOCABULARY, 5)
    split = preprocessor.split("dev", examples, ("x", "y"))
    assert split.words_beyond == 1
    assert str(split) == "dev: 2 examples, 8 tokens, longest 5, words beyond it: 1"


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("classification", lambda size: TextExample("0", "a " * size)),
        ("regression", lambda size: TextExample("0", "a " * (size - 4), "a a a")),  # and a second [SEP]
        ("multiple-choice", lambda size: ChoiceExample("0", "a " * (size - 3), "a", ("a", "a"))),
    ],
)
def test_texts_that_are_cut(name, make):
    preprocessor = find_task(name).kind.preprocessor(VOCABULARY, 10)
    for sizes, expected in (([4, 8], 0), ([9, 8, 40], 2), ([4], 0)):
        split = preprocessor.split("train", [make(size) for size in sizes])
        assert preprocessor.count_cut(split) == expected
    assert preprocessor.max_seq_length == 10


def test_a_long_text_is_not_in_the_batch_of_short_ones():
    lengths = [10] * 63 + [500]
    assert [len(lengths[part]) for part in USUAL_SIZE.cut(lengths)] == [63, 1]
    assert len(list(USUAL_SIZE.cut([256] * 64))) == 1


@given(st.lists(st.integers(1, 50)), st.integers(1, 9), st.none() | st.integers(1, 200))
def test_batches_hold_at_most_their_rows_and_tokens(lengths, rows, tokens):
    lengths = sorted(lengths)
    parts = [lengths[part] for part in BatchSize(rows, tokens).cut(lengths)]
    assert [length for part in parts for length in part] == lengths
    for part in parts:
        assert 1 <= len(part) <= rows
        assert tokens is None or len(part) == 1 or len(part) * part[-1] <= tokens


def test_what_is_cached_depends_on_vocabulary_and_lengths(tmp_path):
    """Otherwise a run would train on what another one cut, or encoded with another vocabulary."""
    keeps_case = Vocabulary("wordpiece", VOCABULARY.content, Normalization(do_lower_case=False))
    other = Vocabulary("wordpiece", VOCABULARY.content.replace(b"a\nb", b"b\na"))
    choices = [ChoiceExample("0", "a A b " * 9, "a b " * 9, ("a", "b"))]
    questions = [QuestionExample("0", "a b " * 9, "a A b " * 9)]
    for name, examples, lengths in (
        ("multiple-choice", choices, ({}, {"max_seq_length": 24}, {"max_qa_length": 8})),
        (
            "question-answering",
            questions,
            (
                {"max_seq_length": 24, "max_query_length": 8, "doc_stride": 6},
                {"max_seq_length": 23, "max_query_length": 8, "doc_stride": 6},
                {"max_seq_length": 24, "max_query_length": 7, "doc_stride": 6},
                {"max_seq_length": 24, "max_query_length": 8, "doc_stride": 5},
            ),
        ),
    ):
        task, folder = find_task(name), tmp_path / name
        make = task.kind.preprocessor
        preprocessors = [make(VOCABULARY, **each) for each in lengths]
        preprocessors += [make(vocabulary, **lengths[0]) for vocabulary in (keeps_case, other)]
        for preprocessor in preprocessors:
            made, cached = (
                preprocessor.split("dev", examples, (), cache) for cache in (None, folder / "dev")
            )
            for ours, theirs in zip(made.features, cached.features, strict=True):
                assert ours.keys() == theirs.keys()
                for key, values in ours.items():
                    np.testing.assert_array_equal(values, theirs[key])
        assert len(list(folder.iterdir())) == len(preprocessors)


def test_options_have_letters():
    """More than 26 cannot be predicted."""
    example = ChoiceExample("0", "a", "b", ("a",) * 27)
    with pytest.raises(
        InputError, match="at most 26 options, whose predictions are letters. Received one with 27"
    ):
        ChoicePreprocessor(VOCABULARY).split("test", [example])


def test_an_empty_batch_is_refused():
    with pytest.raises(InputError, match="--tokens must be at least 1. Received 0."):
        BatchSize(1, 0)
