"""`albert embed`: reads lines, writes the vector of each."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from albert_tf.prediction.finite import not_finite
from data_prep.errors import InputError
from data_prep.files import written_aside
from data_prep.text.line_stream import arriving_lines

Embed = Callable[[list[str]], np.ndarray]  # N texts -> float32 (N, H)
_LINES = 1024  # lines that are sorted by length and computed together


def write_json_vectors(embed: Embed, source: BinaryIO, sink: BinaryIO) -> None:
    """Writes a JSON array of H numbers for each line, as soon as the line has arrived.

    Args:
      embed: computes the vectors.
      source: UTF-8 text; only "\\n" ends a line.
      sink: receives one array per line.

    Raises:
      InputError: a line is not UTF-8, or a vector is not finite; the lines that arrived before it in other groups
        have been written.
    """
    for vectors in _vectors(embed, source):
        # Nine digits are a float32 exactly.
        arrays = (json.dumps([float(f"{x:.9g}") for x in vector]) + "\n" for vector in vectors.tolist())
        sink.write("".join(arrays).encode())
        sink.flush()


def write_vector_file(embed: Embed, source: BinaryIO, path: str | Path) -> int:
    """Writes the vectors of all lines as a NumPy file of float32 (N, H): a complete file, or nothing.

    Args:
      embed: computes the vectors.
      source: UTF-8 text; only "\\n" ends a line.
      path: the file, .npy.

    Returns:
      N.

    Raises:
      InputError: there are no lines, a line is not UTF-8, or a vector is not finite.
    """
    N = 0
    with written_aside(path) as aside, aside.open("wb") as file:
        for vectors in _vectors(embed, source):
            if not N:
                _write_header(file, vectors.shape)
            file.write(vectors.astype("<f4").tobytes())
            N += len(vectors)
        if not N:
            raise InputError("Standard input must have a text on each line. Received no line.")
        file.seek(0)
        _write_header(file, (N, vectors.shape[1]))
    return N


def _vectors(embed: Embed, source: BinaryIO) -> Iterator[np.ndarray]:
    for texts in arriving_lines(source, _LINES):
        vectors = embed(texts)
        if not np.isfinite(vectors).all():
            raise not_finite("Vectors")
        yield vectors


def _write_header(file: BinaryIO, shape: tuple[int, ...]) -> None:
    """NumPy leaves room for a larger first axis, so that a second header replaces the first."""
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
