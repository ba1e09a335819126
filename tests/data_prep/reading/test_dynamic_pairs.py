"""Pairs drawn in the graph, against the static path and the original's loop over tokens."""

import collections

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from data_prep.examples.masking import MaskingSettings
from data_prep.examples.segments import Chunk, sentence_chunks, sentence_order_pair
from data_prep.reading.dynamic_masking import DynamicMasking
from data_prep.reading.dynamic_pairs import pair_batch
from data_prep.reading.random_draws import example_keys
from tests.reference import masking as reference

CLS, SEP, MASK, FIRST = 2, 3, 4, 5  # FIRST: the id of a chunk's first token
MASKING = DynamicMasking(MaskingSettings(20), CLS, SEP, MASK, np.arange(5, 2000, dtype=np.int32))
sentences = st.lists(st.one_of(st.integers(1, 12), st.integers(60, 200)), min_size=2, max_size=8)
seeds = st.integers(0, 2**32)


def chunk_of(lengths) -> Chunk:
    """Sentences of these lengths; the ids ascend by one, so that they show where a token comes from."""
    return Chunk(np.arange(FIRST, FIRST + sum(lengths), dtype=np.int32), np.cumsum(lengths)[:-1])


def ragged(rows):
    return tf.RaggedTensor.from_row_splits(
        np.concatenate(rows).astype(np.int64), np.cumsum([0, *map(len, rows)]).astype(np.int32)
    )


def word_starts(chunk):
    """Every third token continues a word."""
    return (np.arange(len(chunk.ids)) % 3 != 1).astype(np.int64)


def draw(chunks, T, seed=0, start=0):
    """A batch of pairs, as arrays."""
    batch = {
        "input_ids": ragged([chunk.ids for chunk in chunks]),
        "token_boundary": ragged([word_starts(chunk) for chunk in chunks]),
        "sentence_starts": ragged([chunk.sentence_starts for chunk in chunks]),
    }
    keys = example_keys(seed, start + tf.range(len(chunks), dtype=tf.int64))
    return {name: values.numpy() for name, values in pair_batch(batch, T, MASKING, keys).items()}


def segments_of(batch, row):
    """The segments of an example in its order, from its symbols alone."""
    ids = batch["input_ids"][row]
    first, last = np.flatnonzero(ids == SEP)
    return ids[1:first], ids[first + 1 : last]


@pytest.mark.slow
@hypothesis_settings(max_examples=60, deadline=None)
@given(st.lists(sentences, min_size=1, max_size=4), st.integers(5, 80), seeds)
def test_an_example_is_a_truncated_cut_of_its_chunk(documents, T, seed):
    chunks = [chunk_of(lengths) for lengths in documents]
    batch = draw(chunks, T, seed)
    for row, chunk in enumerate(chunks):
        a, b = segments_of(batch, row)
        n = len(a) + len(b) + 3
        assert n == min(T, len(chunk.ids) + 3)
        assert len(a) >= 1
        assert len(b) >= 1
        expected = [CLS, *a, SEP, *b, SEP] + [0] * (T - n)
        assert batch["input_ids"][row].tolist() == expected
        assert batch["input_mask"][row].tolist() == [1] * n + [0] * (T - n)
        types = [0] * (len(a) + 2) + [1] * (len(b) + 1) + [0] * (T - n)
        assert batch["token_type_ids"][row].tolist() == types

        swapped = bool(batch["sentence_order"][row])
        first, second = (b, a) if swapped else (a, b)
        places = np.concatenate([first, second]) - FIRST
        assert (np.diff(places) > 0).all(), "the label is 1 exactly if the order is wrong"
        assert set(np.diff(first)) | set(np.diff(second)) <= {1}, "tokens are lost at the ends only"
        # Of all cuts, one leaves these lengths and contains the segments.
        assert any(
            first[-1] - FIRST < cut <= second[0] - FIRST
            and lengths_left(cut, len(chunk.ids) - cut, T - 3, swapped) == (len(a), len(b))
            for cut in chunk.sentence_starts
        )
        starts = dict(zip(chunk.ids.tolist(), word_starts(chunk).tolist(), strict=True))
        boundary = [1, *([1] + [starts[i] for i in a[1:]]), 1, *([1] + [starts[i] for i in b[1:]]), 1]
        assert batch["token_boundary"][row].tolist() == boundary + [0] * (T - n)


def lengths_left(first, second, max_tokens, swapped):
    """The lengths that the original's loop leaves; they do not depend on its draws."""
    a, b = (second, first) if swapped else (first, second)
    left = reference.truncate_pair([0] * a, [0] * b, max_tokens, np.random.default_rng(0))
    return tuple(map(len, left))


def outcome(a, b, swapped):
    """What was drawn: the label, and the first and last token of each segment."""
    return swapped, a[0], a[-1], b[0], b[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lengths", "max_tokens"),
    [
        ([4, 6, 3, 5], 30),  # nothing is lost
        ([5, 4, 6, 9], 21),  # the last sentence is too long
        ([20, 3], 9),  # the first one is
        ([6, 6], 5),  # both lose tokens
        ([3, 70], 40),  # more tokens are lost than a word of random bits has
    ],
)
def test_outcomes_are_as_frequent_as_in_the_static_path(lengths, max_tokens):
    """Cut, label and losses together, in 20,000 draws: a chi-square test of homogeneity."""
    count, chunk = 20_000, chunk_of(lengths)
    batch = draw([chunk] * count, max_tokens + 3, seed=1)
    ours = collections.Counter(
        outcome(*segments_of(batch, row), bool(batch["sentence_order"][row])) for row in range(count)
    )
    rng = np.random.default_rng(2)
    pairs = (sentence_order_pair(chunk, max_tokens, rng) for _ in range(count))
    theirs = collections.Counter(outcome(pair.a, pair.b, pair.swapped) for pair in pairs)
    assert p_value(ours, theirs) > 0.01


def test_whole_documents_are_as_in_the_static_path():
    """Labels, lengths of the first segment and lengths of examples, with short chunks among them."""
    rng, max_tokens = np.random.default_rng(0), 40
    document = [np.full(n, 9, np.int32) for n in rng.integers(1, 25, size=20_000)]
    chunks = list(sentence_chunks(document, max_tokens, 0.1, rng))
    batch = draw(chunks, max_tokens + 3, seed=3)
    found = [segments_of(batch, row) for row in range(len(chunks))]
    pairs = [sentence_order_pair(chunk, max_tokens, rng) for chunk in chunks]
    assert [len(a) + len(b) for a, b in found] == [len(pair.a) + len(pair.b) for pair in pairs]
    for ours, theirs in (
        ([len(a) for a, _ in found], [len(pair.a) for pair in pairs]),
        (batch["sentence_order"].tolist(), [pair.swapped for pair in pairs]),
    ):
        assert p_value(collections.Counter(ours), collections.Counter(theirs)) > 0.01


def p_value(one, two):
    """Of the hypothesis that both counters draw from one distribution; rare outcomes are counted together."""
    table = np.array([[one[key], two[key]] for key in one.keys() | two.keys()])
    rare = table.sum(axis=1) < 20
    table = np.concatenate([table[~rare], table[rare].sum(axis=0, keepdims=True)])
    table = table[table.sum(axis=1) > 0]
    return scipy.stats.chi2_contingency(table).pvalue


def test_every_epoch_draws_others_and_a_key_always_the_same():
    chunks = [chunk_of([5, 4, 6, 9, 3])] * 50
    first, again, later = (draw(chunks, 20, seed=3, start=start) for start in (0, 0, 50))
    assert all((first[name] == again[name]).all() for name in first)
    assert (first["input_ids"] != later["input_ids"]).any()
    assert len({tuple(row) for row in first["input_ids"].tolist()}) > 20
