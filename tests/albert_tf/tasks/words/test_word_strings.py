"""Words with their places, and the windows that they are labelled in."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.tasks.words.strings import _word_windows, _words


@given(st.text(st.sampled_from("aß€😀 \t\n\u3000\x1c\u2028"), max_size=20))
def test_words_are_pythons_with_their_bytes(text):
    words = _words(text)
    assert [word.text for word in words] == text.split()
    assert [text.encode()[word.begin : word.end].decode() for word in words] == text.split()


@given(st.lists(st.integers(1, 4), max_size=40), st.integers(1, 20))
def test_words_are_labelled_where_they_have_context(sizes, room):
    """Every first piece, with a quarter of a window on both sides if the text has as much there."""
    ends = np.cumsum([0, *sizes]).tolist()
    pieces = [np.arange(begin, end) for begin, end in itertools.pairwise(ends)]
    windows, places = _word_windows(pieces, room)
    assert len(places) == len(sizes)
    assert all(1 <= len(window) <= room for window in windows)
    assert {piece for window in windows for piece in window} == set(range(ends[-1]))
    for first, (number, place) in zip(ends, places, strict=False):
        window = windows[number]
        assert window[place] == first
        assert place >= min(room // 4, first)
        assert len(window) - 1 - place >= min(room // 4, ends[-1] - 1 - first)
