import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.errors import InputError
from data_prep.text.line_stream import arriving_lines


class Pipe(io.RawIOBase):
    """Bytes that arrive in given pieces."""

    def __init__(self, pieces):
        self.pieces = list(pieces)

    def read1(self, _size):
        return self.pieces.pop(0) if self.pieces else b""


@given(st.lists(st.text(st.sampled_from("aé\r\u2028")), max_size=8), st.integers(1, 5), st.integers(1, 4))
def test_lines_however_they_arrive(lines, size, most):
    content = "".join(line + "\n" for line in lines).encode()
    pieces = [content[i : i + size] for i in range(0, len(content), size)]
    batches = list(arriving_lines(Pipe(pieces), most))
    assert [line for batch in batches for line in batch] == lines
    assert all(1 <= len(batch) <= most for batch in batches)


def test_a_line_is_yielded_before_the_next_has_arrived():
    arrived = arriving_lines(Pipe([b"one\ntw", b"o\nthree"]))
    assert list(arrived) == [["one"], ["two"], ["three"]]


def test_lines_before_one_that_is_not_utf8():
    arrived = arriving_lines(io.BytesIO(b"one\ntwo\nth\xffee\nfour\n"), max_lines=2)
    assert next(arrived) == ["one", "two"]
    with pytest.raises(InputError, match="Line 3 has the byte 0xff at its position 2.* -f LATIN1"):
        next(arrived)
    with pytest.raises(InputError, match="Line 1 has the byte 0xff at its position 0.* -f UTF-16"):
        next(arriving_lines(io.BytesIO("one\n".encode("utf-16"))))
