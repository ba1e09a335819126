"""Parquet files, which need pyarrow."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from data_prep.errors import InputError, first_line, needs_extra
from data_prep.storage.paths import local_copy
from data_prep.text.sources import check_input

_ROWS = 256  # that are read at once


@contextlib.contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Opens a `pyarrow.parquet.ParquetFile`, and reports what is wrong with it inside the block."""
    check_input(path)
    with needs_extra("Reading .parquet files", "pyarrow", "parquet"):
        import pyarrow
        from pyarrow import parquet
    try:
        with parquet.ParquetFile(local_copy(path)) as table:
            yield table
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = first_line(error).rstrip(".")
        raise InputError(
            f"{path} is not a complete Parquet file: it cannot be read ({reason}). Copy it again or recreate it."
        ) from None


def rows_of(table: Any, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of an open file as dicts of Python's values, of all columns or some."""
    for batch in table.iter_batches(batch_size=_ROWS, columns=columns):
        yield from batch.to_pylist()
