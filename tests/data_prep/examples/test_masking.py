import collections
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.errors import InputError
from data_prep.examples.masking import MaskingSettings, MaskingVocabulary, masked_example, prediction_budget
from data_prep.examples.segments import SegmentPair
from tests.reference import masking as reference

PIECES = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
PIECES += ["▁a", "▁b", "ing", "ed", "s", ",", ".", "▁", "é", "5", "'t"]
NUM_SYMBOLS = 5
VOCABULARY = MaskingVocabulary(
    cls_id=2,
    sep_id=3,
    mask_id=4,
    starts_word=np.array([reference.starts_word(piece) for piece in PIECES]),
    replacements=np.arange(NUM_SYMBOLS, len(PIECES), dtype=np.int32),
)
CLS, SEP, MASK = 2, 3, 4

segments = st.lists(st.sampled_from([1, *range(5, len(PIECES))]), min_size=1, max_size=40)
all_settings = st.builds(
    MaskingSettings,
    max_predictions_per_seq=st.integers(1, 30),
    masked_lm_prob=st.floats(0.01, 0.9),
    ngram=st.integers(1, 5),
)
seeds = st.integers(0, 2**32)


def build(a, b, settings, seed, swapped=False):
    pair = SegmentPair(np.array(a, np.int32), np.array(b, np.int32), swapped, 2)
    return masked_example(pair, VOCABULARY, settings, np.random.default_rng(seed))


@given(segments, segments, all_settings, seeds)
def test_equals_the_oracle(a, b, settings, seed):
    example = build(a, b, settings, seed)
    pieces = [PIECES[i] for i in [CLS, *a, SEP, *b, SEP]]
    masked, positions, _ = reference.mask(
        pieces,
        PIECES[NUM_SYMBOLS:],
        settings.masked_lm_prob,
        settings.max_predictions_per_seq,
        settings.ngram,
        np.random.default_rng(seed),
    )
    assert [PIECES[i] for i in example.input_ids] == masked
    assert example.masked_lm_positions.tolist() == positions
    assert example.token_boundary.tolist() == reference.token_boundary(pieces)


@given(segments, segments, all_settings, seeds, st.booleans())
def test_properties(a, b, settings, seed, swapped):
    example = build(a, b, settings, seed, swapped)
    ids = np.array([CLS, *a, SEP, *b, SEP])
    positions = example.masked_lm_positions

    restored = example.input_ids.copy()
    restored[positions] = example.masked_lm_ids
    assert restored.tolist() == ids.tolist(), "unmasking restores the text"
    separators = np.isin(ids, [CLS, SEP])
    assert not separators[positions].any(), "[CLS] and [SEP] are never masked"
    assert (np.diff(positions) > 0).all()
    assert len(positions) <= prediction_budget(len(ids), settings)
    assert not np.isin(example.input_ids[~separators], [CLS, SEP, 0]).any(), "replacements are no symbols"
    assert example.segment_ids.tolist() == [0] * (len(a) + 2) + [1] * (len(b) + 1)
    assert example.swapped == swapped

    # Whole words go together.
    predicted = np.zeros(len(ids), bool)
    predicted[positions] = True
    word = np.cumsum(example.token_boundary)
    for number in np.unique(word[predicted]):
        assert predicted[word == number].all()


def test_words_of_one_piece_spend_the_whole_budget():
    settings = MaskingSettings(max_predictions_per_seq=77)
    for seed in range(50):
        example = build([5] * 300, [6] * 209, settings, seed)
        assert len(example.masked_lm_ids) == prediction_budget(512, settings) == 77


@pytest.mark.parametrize(
    ("tokens", "prob", "most", "budget"),
    [(512, 0.15, 77, 77), (128, 0.15, 20, 19), (128, 0.15, 10, 10), (5, 0.01, 20, 1)],
)
def test_budget(tokens, prob, most, budget):
    assert prediction_budget(tokens, MaskingSettings(most, prob)) == budget
    assert prediction_budget(200, MaskingSettings(77)) == 30, "15% is usual"


def test_lengths_of_spans_that_are_refused():
    assert [MaskingSettings(20, ngram=ngram).cumulative.shape for ngram in (1, 512)] == [(2, 1), (513, 512)]
    for ngram in (0, 513):
        with pytest.raises(InputError, match=f"--ngram must be from 1 to 512. Received {ngram}."):
            MaskingSettings(20, ngram=ngram)


def test_longer_spans_are_more_frequent_on_request():
    """p(n) is proportional to 1 / (ngram + 1 - n)."""
    cumulative = MaskingSettings(20, ngram=3, favor_shorter_ngram=False).cumulative
    assert np.diff(cumulative[3], prepend=0) == pytest.approx([2 / 11, 3 / 11, 6 / 11])
    assert np.diff(cumulative[2], prepend=0) == pytest.approx([2 / 5, 3 / 5, 0])


def test_ngram_lengths_are_renormalised_where_fewer_words_are_left():
    cumulative = MaskingSettings(20, ngram=3).cumulative
    assert np.diff(cumulative[3], prepend=0) == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert np.diff(cumulative[2], prepend=0) == pytest.approx([2 / 3, 1 / 3, 0])
    assert np.diff(cumulative[1], prepend=0) == pytest.approx([1, 0, 0])


def test_spans_do_not_cross_the_separator():
    """With one word in each segment, spans have one word, although three are allowed."""
    settings = MaskingSettings(max_predictions_per_seq=4, masked_lm_prob=0.3, ngram=3)
    for seed in range(100):
        example = build([5, 7], [6, 8], settings, seed)
        assert example.masked_lm_positions.tolist() in ([1, 2], [4, 5])


def test_a_word_does_not_continue_across_the_separator():
    example = build([5, 7], [7, 8, 6], MaskingSettings(20), 0)
    assert example.token_boundary.tolist() == [1, 1, 0, 1, 1, 0, 1, 1]


@pytest.mark.very_slow
def test_distribution_of_20_000_examples():
    """The masked share, 80/10/10, and the length of the first n-gram, which the budget never limits, within 1%."""
    settings = MaskingSettings(20)
    pair = SegmentPair(np.array([13, 14] * 20, np.int32), np.array([14, 13] * 20, np.int32), False, 2)
    pieces = [PIECES[i] for i in [CLS, *pair.a, SEP, *pair.b, SEP]]
    with_three_left = {*range(1, 39), *range(42, 80)}
    tokens = predicted = masked = same = 0
    lengths: collections.Counter = collections.Counter()
    for seed in range(20_000):
        example = masked_example(pair, VOCABULARY, settings, np.random.default_rng(seed))
        shown = example.input_ids[example.masked_lm_positions]
        tokens += len(example.input_ids)
        predicted += len(shown)
        masked += int((shown == MASK).sum())
        same += int((shown == example.masked_lm_ids).sum())
        *_, spans = reference.mask(pieces, PIECES[5:], 0.15, 20, 3, np.random.default_rng(seed))
        assert sorted(chain.from_iterable(spans)) == example.masked_lm_positions.tolist()
        lengths[len(spans[0]) if spans[0][0] in with_three_left else None] += 1
    with_room = 20_000 - lengths[None]
    assert [lengths[n] / with_room for n in (1, 2, 3)] == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.01)
    assert predicted / tokens == pytest.approx(0.15, abs=0.01)
    assert masked / predicted == pytest.approx(0.8, abs=0.01)
    assert same / predicted == pytest.approx(0.1 + 0.1 / 11, abs=0.01)
