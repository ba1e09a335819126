"""Position tables of another length against an oracle, to the bit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.training.positions import resized_table, tile_positions
from tests.reference.positions import tiled_rows

LENGTHS = st.integers(2, 40)


@given(T=LENGTHS, length=st.integers(1, 200), dtype=st.sampled_from(["float32", "float64"]))
def test_rows_are_repeated_or_cut_off(T, length, dtype):
    learned = np.random.default_rng(T).normal(size=(T, 3)).astype(dtype)
    rows = tile_positions(learned, length)
    np.testing.assert_array_equal(rows, tiled_rows(learned, length), strict=True)


@given(T=LENGTHS, length=LENGTHS)
def test_methods(T, length):
    rng = np.random.default_rng(0)
    learned, current = rng.normal(size=(T, 3)), rng.normal(size=(length, 3))
    for method in (True, "tile"):
        np.testing.assert_array_equal(resized_table(learned, current, method), tiled_rows(learned, length))
    fresh = resized_table(learned, current, "fresh")
    np.testing.assert_array_equal(fresh[:T], learned[:length])
    np.testing.assert_array_equal(fresh[T:], current[T:])
