"""Masking in the graph, against the rules in plain Python."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from data_prep.examples.masking import MaskingSettings, masked_example, prediction_budget, unmasked_example
from data_prep.examples.segments import SegmentPair
from data_prep.reading.dynamic_masking import DynamicMasking, mask_batch
from data_prep.reading.random_draws import example_keys, uniform_pairs
from tests.data_prep.examples.test_masking import CLS, MASK, PIECES, SEP, VOCABULARY
from tests.reference import masking as reference

REPLACEMENTS = VOCABULARY.replacements
segments = st.lists(st.sampled_from(REPLACEMENTS.tolist()), min_size=1, max_size=40)
seeds = st.integers(0, 2**32)


def unmasked(pairs, T):
    """A batch as the reader parses it."""
    batch = {
        name: np.zeros((len(pairs), T), np.int32) for name in ("input_ids", "input_mask", "token_boundary")
    }
    for row, (a, b) in enumerate(pairs):
        pair = SegmentPair(np.array(a, np.int32), np.array(b, np.int32), False, 2)
        example = unmasked_example(pair, VOCABULARY)
        n = len(example.input_ids)
        batch["input_ids"][row, :n] = example.input_ids
        batch["token_boundary"][row, :n] = example.token_boundary
        batch["input_mask"][row, :n] = 1
    return {name: tf.constant(values) for name, values in batch.items()}


def masked(batch, settings, seed, start=0):
    masking = DynamicMasking(settings, CLS, SEP, MASK, REPLACEMENTS)
    keys = example_keys(seed, start + tf.range(len(batch["input_ids"]), dtype=tf.int64))
    return {name: values.numpy() for name, values in mask_batch(batch, masking, keys).items()}


@pytest.mark.slow
@hypothesis_settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(segments, st.one_of(st.just([]), segments)), min_size=1, max_size=4),
    st.integers(1, 30),
    st.floats(0.01, 0.9),
    st.integers(1, 5),
    seeds,
)
def test_properties(pairs, predictions, prob, ngram, seed):
    batch = unmasked(pairs, 96)
    settings = MaskingSettings(predictions, prob, ngram)
    result = masked(batch, settings, seed)
    for row, (a, b) in enumerate(pairs):
        ids = np.array([CLS, *a, SEP, *([*b, SEP] if b else [])])
        pieces = [PIECES[i] for i in ids]
        weights = result["masked_lm_weights"][row]
        count = int(weights.sum())
        assert weights.tolist() == [1.0] * count + [0.0] * (predictions - count)
        positions = result["masked_lm_positions"][row, :count]
        assert (np.diff(positions) > 0).all()
        restored = result["input_ids"][row].copy()
        restored[positions] = result["masked_lm_ids"][row, :count]
        assert restored.tolist() == batch["input_ids"][row].numpy().tolist()
        budget = prediction_budget(len(ids), settings)
        assert count <= budget
        words = [word for segment in reference.words(pieces) for word in segment]
        picked = set(positions.tolist())
        assert all(set(word) <= picked or not set(word) & picked for word in words), "whole words"
        left = [word for word in words if not set(word) & picked]
        # A word is only left alone if it is over the budget, or was tried as part of a longer span.
        assert count or all(len(word) > budget for word in left)
        assert not np.isin(result["input_ids"][row, positions], [CLS, SEP, 0]).any()


def test_words_of_one_piece_spend_the_whole_budget():
    result = masked(unmasked([([5] * 300, [6] * 209)] * 50, 512), MaskingSettings(77), 1)
    assert result["masked_lm_weights"].sum(axis=1).tolist() == [77.0] * 50


def test_masks_follow_from_the_key_and_differ_between_epochs():
    batch = unmasked([([5, 7] * 20, [6] * 30)] * 4, 96)
    first, again = (masked(batch, MaskingSettings(20), 3) for _ in range(2))
    assert all((first[name] == again[name]).all() for name in first)
    assert (first["input_ids"] != masked(batch, MaskingSettings(20), 3, start=4)["input_ids"]).any()
    assert (first["input_ids"] != masked(batch, MaskingSettings(20), 4)["input_ids"]).any()
    rows = {tuple(row) for row in first["masked_lm_positions"].tolist()}
    assert len(rows) == 4, "equal examples at other positions get other masks"


def test_kinds_of_predictions():
    """80% [MASK], 10% random of all pieces, 10% themselves; unknown pieces are predicted as any other."""
    batch = unmasked([([1, 5] * 20, [5, 1] * 20)] * 500, 83)
    result = masked(batch, MaskingSettings(20), 1)
    rows, places = np.nonzero(result["masked_lm_weights"])
    shown = result["input_ids"][rows, result["masked_lm_positions"][rows, places]]
    originals = result["masked_lm_ids"][rows, places]
    assert len(shown) == 500 * prediction_budget(83, MaskingSettings(20))
    assert np.mean(originals == 1) == pytest.approx(0.5, abs=0.05)
    assert np.mean(shown == MASK) == pytest.approx(0.8, abs=0.03)
    others = np.bincount(shown[(shown != MASK) & (shown != originals)], minlength=len(PIECES))
    assert others.sum() / len(shown) == pytest.approx(0.1 * (1 - 0.5 / len(REPLACEMENTS)), abs=0.02)
    assert (others[REPLACEMENTS] > 10).all()
    assert others[:5].sum() == 0


@pytest.mark.very_slow
def test_distribution_of_100_000_examples():
    """Masked share, n-gram lengths and 80/10/10 within 1%."""
    T, chunk = 84, 10_000
    batch = unmasked([([13, 14] * 20, [14, 13] * 20 + [13])] * chunk, T)
    budget = prediction_budget(T, MaskingSettings(20))
    share, kinds, used = 0, np.zeros(2), 0
    lengths = np.zeros(4)
    for number in range(10):
        result = masked(batch, MaskingSettings(20), 1, start=number * chunk)
        real = result["masked_lm_weights"] > 0
        positions = result["masked_lm_positions"][real]
        rows = np.nonzero(real)[0]
        shown = result["input_ids"][rows, positions]
        share += real.sum()
        kinds += [(shown == MASK).sum(), (shown == result["masked_lm_ids"][real]).sum()]
        used += len(shown)
        lengths[:3] += _first_span_lengths(batch, number * chunk)
    assert share / (100_000 * T) == pytest.approx(budget / T, abs=0.01)
    assert kinds[0] / used == pytest.approx(0.8, abs=0.01)
    assert kinds[1] / used == pytest.approx(0.1 + 0.1 / len(REPLACEMENTS), abs=0.01)
    assert lengths[:3] / lengths.sum() == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.01)


def _first_span_lengths(batch, start):
    """How often the draw is 1, 2, 3 where three words are left."""
    from data_prep.reading.dynamic_masking import _span_lengths

    keys = example_keys(1, start + tf.range(1000, dtype=tf.int64))
    uniform = uniform_pairs(keys, 84, stream=0)[1]
    drawn = _span_lengths(tf.ones([1000, 87], tf.bool), uniform, MaskingSettings(20))
    return np.bincount(drawn.numpy().ravel(), minlength=4)[1:]


@pytest.mark.slow
def test_shares_equal_the_oracles():
    """Positions are masked as often as by the rules in plain Python, at segment ends too."""
    a, b, T, count = [5, 7, 6, 10, 5, 8, 9], [6, 5, 7, 11], 14, 20_000
    settings = MaskingSettings(4, 0.3)
    result = masked(unmasked([(a, b)] * count, T), settings, 5)
    ours = np.zeros(T)
    np.add.at(ours, result["masked_lm_positions"][result["masked_lm_weights"] > 0], 1 / count)
    theirs, rng = np.zeros(T), np.random.default_rng(0)
    pieces = [PIECES[i] for i in [CLS, *a, SEP, *b, SEP]]
    for _ in range(count):
        _, positions, _ = reference.mask(pieces, PIECES[5:], 0.3, 4, 3, rng)
        theirs[positions] += 1 / count
    assert ours == pytest.approx(theirs, abs=0.015)


@pytest.mark.slow
def test_runs_of_masked_words_are_as_long_as_numpys():
    """With few masks, a run of masked words is nearly always one span; the budget limits both alike."""
    a, b, T, count = [13] * 500, [14] * 500, 1003, 1500
    settings = MaskingSettings(20, 0.02)
    result = masked(unmasked([(a, b)] * count, T), settings, 5)
    ours = [row[:20] for row in result["masked_lm_positions"]]
    pair, rng = SegmentPair(np.array(a, np.int32), np.array(b, np.int32), False, 2), np.random.default_rng(0)
    theirs = [masked_example(pair, VOCABULARY, settings, rng).masked_lm_positions for _ in range(count)]
    assert _run_shares(ours) == pytest.approx(_run_shares(theirs), abs=0.02)


def _run_shares(all_positions):
    runs = [
        len(run)
        for positions in all_positions
        for run in np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1)
    ]
    return np.bincount(runs, minlength=4)[1:4] / len(runs)
