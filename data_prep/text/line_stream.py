"""The lines of a stream, each as soon as it has arrived."""

from collections.abc import Iterator
from typing import BinaryIO

from data_prep.errors import InputError
from data_prep.files import utf8_command

_READ_BYTES = 1 << 20


def arriving_lines(source: BinaryIO, max_lines: int | None = None) -> Iterator[list[str]]:
    """Yields the lines that have arrived, without waiting for more; also those before one that is not UTF-8.

    Only "\\n" ends a line. No more than `max_lines` are yielded together, if given.
    """
    done = 0
    for arrived in _arrivals(source):
        step = max_lines or len(arrived)
        for begin in range(0, len(arrived), step):
            lines, problem = _decode(arrived[begin : begin + step], done)
            if lines:
                yield lines
            if problem is not None:
                raise problem
            done += len(lines)


def _arrivals(source) -> Iterator[list[bytes]]:
    rest: list[bytes] = []  # the beginning of an incomplete line
    while arrived := source.read1(_READ_BYTES):
        first, *others = arrived.split(b"\n")
        rest.append(first)
        if others:
            yield [b"".join(rest), *others[:-1]]
            rest = others[-1:]
    if last := b"".join(rest):
        yield [last]


def _decode(lines: list[bytes], done: int) -> tuple[list[str], InputError | None]:
    """The texts up to the first line that is not UTF-8, and the error for that line."""
    texts = []
    for line in lines:
        try:
            texts.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            number = done + len(texts) + 1
            command = utf8_command(line if number == 1 else b"")
            return texts, InputError(
                f"Text must be UTF-8. Line {number} has the byte 0x{line[error.start]:02x} at its position "
                f"{error.start}; convert the text, for example with {command}."
            )
    return texts, None
