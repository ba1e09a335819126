"""`albert embed`: reads lines, writes the vector of each text."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from albert_tf.runtime.input_lines import UNNAMED, InputLines, LineFormat
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.finite import check_finite
from albert_tf.tasks.task import own_data_task
from albert_tf.tasks.texts.kind import CLASSES
from albert_tf.tasks.texts.rows import TextExample
from data_prep.errors import InputError
from data_prep.files import written_aside
from data_prep.text.line_stream import arriving_lines

Embed = Callable[[list[str]], np.ndarray]  # N texts -> float32 (N, H)
_LINES = 1024  # lines that are sorted by length and computed together


def arriving_texts(
    source: BinaryIO, columns: Columns, line_format: LineFormat, named: Columns = UNNAMED
) -> Iterator[list[str]]:
    """Yields the texts that have arrived, one for each line, object or row of a table.

    Args:
      source: UTF-8; only "\\n" ends a line.
      columns: as for `InputLines`.
      line_format: as for `InputLines`.
      named: as for `InputLines`; the column of the texts.

    Raises:
      InputError: a line is not UTF-8, has no text, or has two and `named` does not choose one; the texts before it
        have been yielded.
    """
    lines = InputLines(own_data_task(CLASSES), columns, line_format, plain="text", named=named)
    for arrived in arriving_lines(source, _LINES):
        examples = [example for example in lines.examples(arrived) if isinstance(example, TextExample)]
        if named.text_a is None and (pair := next((one for one in examples if one.text_b), None)):
            raise InputError(
                f"A vector is that of one text. Received two in line {pair.id}; name the column of one of them, "
                "as in --column_names=text=NAME."
            )
        if examples:
            yield [example.text_a for example in examples]
    lines.finish()


def write_json_vectors(embed: Embed, texts: Iterable[list[str]], sink: BinaryIO) -> None:
    """Writes a JSON array of H numbers for each text, as soon as it has arrived.

    Args:
      embed: computes the vectors.
      texts: those that are computed together.
      sink: receives one array per line.

    Raises:
      InputError: a vector is not finite; the vectors of earlier lists have been written.
    """
    for vectors in _vectors(embed, texts):
        # Nine digits determine a float32.
        arrays = (json.dumps([float(f"{x:.9g}") for x in vector]) + "\n" for vector in vectors.tolist())
        sink.write("".join(arrays).encode())
        sink.flush()


def write_vector_file(embed: Embed, texts: Iterable[list[str]], path: str | Path) -> int:
    """Writes the vectors of all texts as a NumPy file of float32 (N, H): a complete file, or nothing.

    Args:
      embed: computes the vectors.
      texts: those that are computed together.
      path: the file, .npy.

    Returns:
      N.

    Raises:
      InputError: there are no texts, or a vector is not finite.
    """
    N = 0
    with written_aside(path) as aside, aside.open("wb") as file:
        for vectors in _vectors(embed, texts):
            if not N:
                _write_header(file, vectors.shape)
            file.write(vectors.astype("<f4").tobytes())
            N += len(vectors)
        if not N:
            raise InputError("The input must have a text on each line. Received no line.")
        file.seek(0)
        _write_header(file, (N, vectors.shape[1]))
    return N


def _vectors(embed: Embed, texts: Iterable[list[str]]) -> Iterator[np.ndarray]:
    for together in texts:
        vectors = embed(together)
        check_finite("Vectors", [vectors])
        yield vectors


def _write_header(file: BinaryIO, shape: tuple[int, ...]) -> None:
    """NumPy leaves room for a larger first axis, so that a second header replaces the first."""
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
