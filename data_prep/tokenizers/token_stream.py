"""Lines of text in, JSON arrays out: `albert tokenize` between two pipes."""

import json
from collections.abc import Iterator
from typing import BinaryIO, Literal

import numpy as np

from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Tokenizer

Output = Literal["ids", "pieces", "offsets"]
_READ_BYTES = 1 << 20


def tokenize_stream(tokenizer: Tokenizer, source: BinaryIO, sink: BinaryIO, output: Output = "ids") -> None:
    """Writes a JSON array for each line, as soon as the line has arrived.

    Args:
      tokenizer: encodes the lines.
      source: UTF-8 text; only "\\n" ends a line.
      sink: receives one array per line.
      output: the elements: ids, pieces as strings, or [begin, end] in characters of the line.

    Raises:
      InputError: a line is not UTF-8; the lines before it have been written.
    """
    done = 0
    for lines in batches_of_lines(source):
        texts, problem = decode_lines(lines, done)
        done += len(texts)
        arrays = (json.dumps(array, ensure_ascii=False) + "\n" for array in _encode(tokenizer, texts, output))
        sink.write("".join(arrays).encode("utf-8"))
        sink.flush()
        if problem is not None:
            raise problem


def batches_of_lines(source) -> Iterator[list[bytes]]:
    """The lines that have arrived, without waiting for more."""
    rest: list[bytes] = []  # of an incomplete line
    while arrived := source.read1(_READ_BYTES):
        first, *others = arrived.split(b"\n")
        rest.append(first)
        if others:
            yield [b"".join(rest), *others[:-1]]
            rest = others[-1:]
    if last := b"".join(rest):
        yield [last]


def decode_lines(lines: list[bytes], done: int) -> tuple[list[str], InputError | None]:
    """The texts up to the first line that is not UTF-8, and the error for that line."""
    texts = []
    for line in lines:
        try:
            texts.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            return texts, InputError(
                f"Text must be UTF-8. Line {done + len(texts) + 1} has the byte 0x{line[error.start]:02x} at "
                f"its position {error.start}; convert the text, for instance with iconv."
            )
    return texts, None


def _encode(tokenizer: Tokenizer, texts: list[str], output: Output) -> Iterator[list]:
    if output == "offsets":
        return (encoding.offsets.tolist() for encoding in tokenizer.encode_batch_with_offsets(texts))
    encoded: list[np.ndarray] = tokenizer.encode_batch(texts)
    if output == "ids":
        return (ids.tolist() for ids in encoded)
    return ([tokenizer.pieces[i] for i in ids] for ids in encoded)
