"""Batches of examples in NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.prediction.splits import BatchSize, EncodedSplit, numpy_batches
from data_prep.errors import InputError


def test_numpy_batches_have_every_row_once_and_rows_of_equal_shape():
    def ids(*shape: int) -> dict[str, np.ndarray]:
        return {"input_ids": np.ones(shape, np.int32), "input_mask": np.ones(shape, np.int32)}

    split = EncodedSplit("lines", (), [ids(3, 5), ids(2, 9), ids(3, 4), ids(3, 7)])
    batches = list(numpy_batches(split, BatchSize(2)))
    assert [batch["index"].tolist() for batch in batches] == [[1], [2, 0], [3]]
    assert [batch["input_ids"].shape for batch in batches] == [(1, 2, 9), (2, 3, 5), (1, 3, 7)]
    assert batches[1]["input_mask"].sum(axis=-1).tolist() == [[4] * 3, [5] * 3]


@given(st.lists(st.integers(1, 50)), st.integers(1, 9), st.none() | st.integers(1, 200))
def test_batches_hold_at_most_their_rows_and_tokens(lengths, rows, tokens):
    lengths = sorted(lengths)
    parts = [lengths[part] for part in BatchSize(rows, tokens).cut(lengths)]
    assert [length for part in parts for length in part] == lengths
    for part in parts:
        assert 1 <= len(part) <= rows
        assert tokens is None or len(part) == 1 or len(part) * part[-1] <= tokens


def test_an_empty_batch_is_refused():
    with pytest.raises(InputError, match="--tokens must be at least 1. Received 0."):
        BatchSize(1, 0)
