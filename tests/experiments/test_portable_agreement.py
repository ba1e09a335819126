"""What counts as an agreement between a portable model and a SavedModel."""

import numpy as np
import pytest

from experiments.portable_agreement import (
    CASES,
    Differences,
    column_of,
    with_mask,
)


def answers(label, probability, spread=0.0):
    """Two rows; `spread` is added to the second."""
    return {
        "label": np.array(["small", label], object),
        "probabilities": np.array([[0.2, 0.8], [probability + spread, 1 - probability - spread]], np.float32),
    }


@pytest.mark.parametrize(
    ("theirs", "ours", "other", "ties", "agrees"),
    [
        (answers("big", 0.3), answers("big", 0.3), 0, 0, True),
        (answers("big", 0.3), answers("big", 0.3, 5e-5), 0, 0, True),
        (answers("big", 0.3), answers("big", 0.3, 2e-4), 0, 0, False),
        (answers("big", 0.5), answers("small", 0.5, 5e-5), 0, 1, True),
        (answers("big", 0.5), answers("small", 0.5, 2e-4), 1, 0, False),
    ],
)
def test_differences(theirs, ours, other, ties, agrees):
    found = Differences()
    found.add(theirs, ours)
    found.add(theirs, theirs)
    assert (found.rows, found.other, found.ties, found.agrees) == (4, other, ties, agrees)


@pytest.mark.parametrize(
    ("output", "difference", "agrees"),
    [
        ("embedding", 5e-5, True),
        ("embedding", 2e-4, False),
        ("embedding", np.nan, False),
        ("score", 2e-4, False),
        ("sequence_output", 6.0, False),
        ("null_odds", 5e-4, True),
        ("null_odds", 2e-3, False),
    ],
)
def test_all_numbers_are_judged(output, difference, agrees):
    found = Differences()
    found.add({output: np.zeros((2, 3))}, {output: np.array([[0, difference, 0], [0, 0, 0]])})
    assert (found.rows, found.other, found.agrees) == (2, 0, agrees)


def test_other_outputs_or_shapes_end_the_comparison():
    with pytest.raises(SystemExit, match="The outputs differ"):
        Differences().add(answers("big", 0.5), {"label": np.array(["small", "big"], object)})
    with pytest.raises(SystemExit, match="The shapes of score differ"):
        Differences().add({"score": np.zeros(2)}, {"score": np.zeros(3)})


def test_columns_are_made_of_lines():
    assert [with_mask(text) for text in ("a b c", "a b", "a")] == ["a [MASK] c", "a [MASK]", "a [MASK]"]
    names = {name for case in CASES.values() for name in case.columns} - {"ids"}
    for name in names:
        assert len(column_of(name, ["one line", "another"])) == 2
