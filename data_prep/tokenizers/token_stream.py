"""Lines of text in, JSON arrays out: `albert tokenize` between two pipes."""

import json
from collections.abc import Iterator
from typing import BinaryIO, Literal

import numpy as np

from data_prep.text.line_stream import arriving_lines
from data_prep.tokenizers.vocabulary import Tokenizer

Output = Literal["ids", "pieces", "offsets"]


def tokenize_stream(tokenizer: Tokenizer, source: BinaryIO, sink: BinaryIO, output: Output = "ids") -> None:
    """Writes a JSON array of ids, pieces or [begin, end] in characters for each line, as soon as it has arrived.

    Only "\\n" ends a line. Those before one that is not UTF-8 are written.
    """
    for texts in arriving_lines(source):
        arrays = (json.dumps(array, ensure_ascii=False) + "\n" for array in _encode(tokenizer, texts, output))
        sink.write("".join(arrays).encode("utf-8"))
        sink.flush()


def _encode(tokenizer: Tokenizer, texts: list[str], output: Output) -> Iterator[list]:
    if output == "offsets":
        return (encoding.offsets.tolist() for encoding in tokenizer.encode_batch_with_offsets(texts))
    encoded: list[np.ndarray] = tokenizer.encode_batch(texts)
    if output == "ids":
        return (ids.tolist() for ids in encoded)
    return ([tokenizer.pieces[i] for i in ids] for ids in encoded)
