import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.examples.segments import (
    chunks,
    next_sentence_pairs,
    segment_pairs,
    single_segments,
    truncate_pair,
)
from tests.reference import masking as reference

seeds = st.integers(0, 2**32)
documents = st.lists(st.integers(1, 30), max_size=30)


def numbered(lengths):
    """A document whose tokens are 0, 1, 2, ...: their positions."""
    ends = np.cumsum(lengths)
    return [np.arange(end - length, end, dtype=np.int32) for end, length in zip(ends, lengths, strict=True)]


@given(documents, st.integers(2, 60), st.floats(0, 1), seeds)
def test_pairs_are_neighbours_in_order_or_swapped(lengths, max_tokens, short_seq_prob, seed):
    boundaries = {0, *np.cumsum(lengths).tolist()}
    document = numbered(lengths)
    pairs = list(segment_pairs(document, max_tokens, short_seq_prob, np.random.default_rng(seed)))
    last = -1
    for pair in pairs:
        assert len(pair.a) >= 1
        assert len(pair.b) >= 1
        assert len(pair.a) + len(pair.b) <= max_tokens
        first, second = (pair.b, pair.a) if pair.swapped else (pair.a, pair.b)
        # Swapped back, the tokens ascend: label 1 exactly when the order is wrong.
        ascending = np.concatenate([first, second])
        assert (np.diff(ascending) > 0).all()
        assert ascending[0] > last
        last = ascending[-1]
        # One gap at most, at a sentence boundary, where truncation cut.
        assert set(np.diff(first)) | set(np.diff(second)) <= {1}
        assert boundaries & set(range(first[-1] + 1, second[0] + 1))
    used = sum(pair.num_sentences for pair in pairs)
    assert all(pair.num_sentences >= 2 for pair in pairs)
    # Nothing is dropped but a single last sentence.
    assert used == len(lengths) or (used == len(lengths) - 1)


@given(documents, st.integers(2, 60), seeds)
def test_chunks_grow_to_the_target_and_to_two_sentences(lengths, max_tokens, seed):
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=int)])
    found = list(chunks(offsets, max_tokens, 0.0, np.random.default_rng(seed)))
    begin = length = 0
    expected = []
    for i in range(len(lengths)):
        length += lengths[i]
        if i == len(lengths) - 1 or (length >= max_tokens and i + 1 - begin >= 2):
            expected.append((begin, i + 1))
            begin, length = i + 1, 0
    assert found == expected


def test_half_are_swapped_and_cuts_are_uniform():
    rng = np.random.default_rng(0)
    pairs = [pair for _ in range(4000) for pair in segment_pairs(numbered([2] * 4), 8, 0.0, rng)]
    assert np.mean([pair.swapped for pair in pairs]) == pytest.approx(0.5, abs=0.03)
    cuts = np.bincount([len(pair.b if pair.swapped else pair.a) // 2 for pair in pairs])
    assert cuts[1:] / len(pairs) == pytest.approx(1 / 3, abs=0.03)
    document = numbered([2] * 8001)  # the last sentence is left over, and has no pair
    found = next_sentence_pairs(document, 8, 0.1, rng, lambda rng: [np.full(3, -1, np.int32)] * 3)
    assert np.mean([pair.swapped for pair in found]) == pytest.approx(0.5, abs=0.03)


def test_a_tenth_of_the_chunks_is_short():
    rng = np.random.default_rng(0)
    offsets = np.arange(100_001)  # one token a sentence, so a chunk is as long as its target
    sizes = np.array([end - begin for begin, end in chunks(offsets, 50, 0.1, rng)][:-1])
    # Of the short ones 1 in 49 draws the full length.
    assert np.mean(sizes < 50) == pytest.approx(0.1 * 48 / 49, abs=0.02)
    short = sizes[sizes < 50]
    assert short.min() == 2
    assert short.mean() == pytest.approx(25.5, abs=3)


@pytest.mark.parametrize(("a", "b", "max_tokens"), [(9, 3, 5), (3, 9, 5), (5, 5, 7), (5, 5, 2), (2, 1, 9)])
def test_truncation_has_the_original_distribution(a, b, max_tokens):
    """The closed form drops as many tokens from each end, equally often, as the original's loop over tokens."""

    def counts(truncate, rng):
        seen: dict = {}
        for _ in range(3000):
            left, right = truncate(np.arange(a), np.arange(100, 100 + b), max_tokens, rng)
            key = (left[0], left[-1], right[0], right[-1])
            seen[key] = seen.get(key, 0) + 1 / 3000
        return seen

    ours = counts(truncate_pair, np.random.default_rng(1))
    theirs = counts(reference.truncate_pair, np.random.default_rng(2))
    for key in ours.keys() | theirs.keys():
        assert ours.get(key, 0) == pytest.approx(theirs.get(key, 0), abs=0.05), key


@given(documents, st.integers(2, 60), st.floats(0, 1), seeds)
def test_single_segments_use_every_sentence(lengths, max_tokens, short_seq_prob, seed):
    found = list(single_segments(numbered(lengths), max_tokens, short_seq_prob, np.random.default_rng(seed)))
    assert sum(pair.num_sentences for pair in found) == len(lengths)
    for pair in found:
        assert 1 <= len(pair.a) <= max_tokens
        assert len(pair.b) == 0
        assert not pair.swapped
        assert set(np.diff(pair.a)) <= {1}


@given(documents, st.integers(2, 60), st.floats(0, 1), seeds)
def test_next_sentences_follow_or_come_from_another_document(lengths, max_tokens, short_seq_prob, seed):
    def next_segment(rng):
        return [np.full(rng.integers(1, 9), -1, np.int32) for _ in range(5)]

    rng = np.random.default_rng(seed)
    for pair in next_sentence_pairs(numbered(lengths), max_tokens, short_seq_prob, rng, next_segment):
        assert len(pair.a) >= 1
        assert 1 <= len(pair.b) <= max_tokens - len(pair.a)
        assert (pair.b == -1).all() == pair.swapped
        assert pair.swapped or pair.a[-1] < pair.b[0]


@pytest.mark.very_slow
def test_half_of_the_next_sentences_are_random_and_half_of_the_pairs_swapped():
    """100,000 examples of each objective."""
    rng = np.random.default_rng(0)
    document = numbered([2] * 1201)  # the last sentence is left over, and has no pair
    sop: list = []
    nsp: list = []
    while len(sop) < 100_000:
        sop += [pair.swapped for pair in segment_pairs(document, 8, 0.1, rng)]
    while len(nsp) < 100_000:
        found = next_sentence_pairs(document, 8, 0.1, rng, lambda rng: [np.full(3, -1, np.int32)] * 3)
        nsp += [pair.swapped for pair in found]
    assert np.mean(sop) == pytest.approx(0.5, abs=0.01)
    assert np.mean(nsp) == pytest.approx(0.5, abs=0.01)
