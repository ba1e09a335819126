"""Texts with [MASK]: the parts around masks that are kept, and the places of the masks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.tokenizers.masked_texts import cut_around_masks, glued_ids, mask_positions

MASK = 4


@given(st.lists(st.sampled_from([MASK, 7, 8, 9]), max_size=30), st.integers(1, 12))
def test_the_masks_are_kept_if_they_fit(values, room):
    """Other ids are told apart by their places, from 100."""
    ids = np.array([value if value == MASK else 100 + place for place, value in enumerate(values)], np.int32)
    kept = cut_around_masks(ids, MASK, room)
    assert len(kept) == min(room, len(ids))
    begins = [i for i in range(len(ids) - len(kept) + 1) if ids[i : i + len(kept)].tolist() == kept.tolist()]
    assert begins, "ids that follow each other"
    masks = np.flatnonzero(ids == MASK)
    if not len(masks):
        assert begins[0] == 0
    elif masks[-1] - masks[0] < room:
        assert (kept == MASK).sum() == len(masks)
    else:
        assert any(begin <= masks[0] < begin + room for begin in begins), "the first one is"


@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        ([10], range(8, 12)),
        ([0], range(4)),
        ([19], range(16, 20)),
        ([8, 11], range(8, 12)),
        ([3, 18], range(3, 7)),
    ],
)
def test_the_masks_are_in_the_middle(masks, expected):
    ids = np.arange(100, 120)
    ids[masks] = MASK
    np.testing.assert_array_equal(cut_around_masks(ids, MASK, 4), ids[expected])


def test_places_of_masks():
    """Rows with fewer have other places at the end; one place at least."""
    rows = np.array([[2, 4, 9, 4, 3], [2, 7, 4, 3, 0], [2, 7, 3, 0, 0]])
    assert mask_positions(rows, MASK).tolist() == [[1, 3], [2, 0], [0, 1]]
    assert mask_positions(rows[2:], MASK).tolist() == [[0]]


def test_pieces_without_their_space():
    assert glued_ids(("▁", "s", "▁s", "▁sat", "at", "▁at")).tolist() == [-1, 1, 1, 3, 4, 4]
