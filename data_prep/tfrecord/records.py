"""The framing of a TFRecord file: where its records are, and whether it is whole.

A record is: length (8 bytes), masked CRC-32C of the length (4), the payload, masked CRC-32C of the payload (4).
"""

import contextlib
import gzip
import mmap
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import google_crc32c
import numpy as np

from data_prep.errors import InputError

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_HEADER, _FOOTER = 12, 4
_GZIP_MAGIC = b"\x1f\x8b"


def count_examples(paths: list[Path]) -> list[int]:
    """How many records each file has, from their headers alone; the payloads are not read.

    Args:
      paths: TFRecord files, plain or GZIP (which has to be unpacked in memory).

    Returns:
      One number a file.

    Raises:
      InputError: a file is missing, empty, not a TFRecord file, or cut off; names the file and the byte.
    """
    return [len(record_offsets(Path(path))) for path in paths]


def record_offsets(path: Path) -> np.ndarray:
    """Where the payload of each record begins and ends.

    Args:
      path: a TFRecord file, plain or GZIP.

    Returns:
      int64 [records, 2]; offsets into the unpacked file.

    Raises:
      InputError: as in `count_examples`.
    """
    with _opened(path) as content:
        return _walk(content, path)


def read_records(path: Path) -> Iterator[bytes]:
    """The payloads, one after the other; what comes behind the last one that is asked for is not looked at.

    Args:
      path: a TFRecord file, plain or GZIP.

    Raises:
      InputError: as in `count_examples`, when that place in the file is reached.
    """
    _check_not_empty(path)
    position = 0
    with gzip.open(path) if is_gzip(path) else path.open("rb") as file:
        while header := _bytes_of(file, _HEADER, path):
            if len(header) < _HEADER:
                raise _cut_off(path, position, position + len(header))
            if _masked_crc(header[:8]) != header[8:]:
                raise _no_record(path, position)
            length = _LENGTH.unpack_from(header)[0]
            payload = _bytes_of(file, length + _FOOTER, path)
            if len(payload) < length + _FOOTER:
                raise _cut_off(path, position, position + _HEADER + len(payload))
            yield payload[:-_FOOTER]
            position += _HEADER + length + _FOOTER
    if not position:
        raise _empty(path)


def framed(payload: bytes) -> bytes:
    """A payload as a record of a TFRecord file.

    >>> framed(b"first").hex()
    '0500000000000000eab2043e66697273740ad06ae4'
    """
    length = _LENGTH.pack(len(payload))
    return b"".join((length, _masked_crc(length), payload, _masked_crc(payload)))


def is_gzip(path: Path) -> bool:
    """Whether a file is GZIP, by its first bytes and not by its name."""
    with path.open("rb") as file:
        return file.read(2) == _GZIP_MAGIC


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[bytes | mmap.mmap]:
    """The bytes of a file, mapped, or unpacked if it is GZIP."""
    _check_not_empty(path)
    if is_gzip(path):
        with gzip.open(path) as packed:
            content = _bytes_of(packed, -1, path)
        if not content:
            raise _empty(path)
        yield content
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        yield mapped


def _check_not_empty(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"There is no TFRecord file {path}.")
    if path.stat().st_size == 0:
        raise _empty(path)


def _bytes_of(file: gzip.GzipFile | IO[bytes], number: int, path: Path) -> bytes:
    try:
        return file.read(number)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{path} is a damaged GZIP file: {error} Copy it again or prepare it again."
        ) from None


def _walk(content: bytes | mmap.mmap, path: Path) -> np.ndarray:
    size = len(content)
    position = 0
    begins: list[int] = []
    ends: list[int] = []
    while position + _HEADER <= size:
        begins.append(position + _HEADER)
        ends.append(begins[-1] + _LENGTH.unpack_from(content, position)[0])
        position = ends[-1] + _FOOTER
    _check_lengths(content, begins, path)
    if position != size:
        # Either the last record sticks out of the file, or what is left is too short for a header.
        raise _cut_off(path, begins[-1] - _HEADER if begins and position > size else position, size)
    return np.stack([np.array(begins, np.int64), np.array(ends, np.int64)], axis=1)


def _check_lengths(content: bytes | mmap.mmap, begins: list[int], path: Path) -> None:
    """Checks the CRC of every length; without it the walk might have gone astray."""
    headers = b"".join([content[begin - _HEADER : begin] for begin in begins])
    rows = np.frombuffer(headers, np.uint8).reshape(-1, _HEADER)
    stored = rows[:, 8:].copy().view("<u4")[:, 0]
    wrong = np.flatnonzero(masked_crc32c(rows[:, :8]) != stored)
    if wrong.size or not begins:
        raise _no_record(path, begins[wrong[0]] - _HEADER if wrong.size else 0)


def _empty(path: Path) -> InputError:
    return InputError(f"A TFRecord file must hold examples. {path} is empty.")


def _no_record(path: Path, position: int) -> InputError:
    return InputError(
        f"{path} is not a whole TFRecord file: there is no record at byte {position}. "
        "Name files that `albert prepare` wrote, or prepare them again."
    )


def _cut_off(path: Path, position: int, size: int) -> InputError:
    return InputError(
        f"{path} is cut off: the record at byte {position} is not complete in a file of {size} bytes. "
        "Copy it again or prepare it again."
    )


def _masked_crc(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return _CRC.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def masked_crc32c(rows: np.ndarray) -> np.ndarray:
    """The checksum of TFRecord files, of many short byte strings at once: faster than a call for each.

    Args:
      rows: uint8 [rows, bytes].

    Returns:
      uint32 [rows].
    """
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in rows.T:
        crc = _CRC_TABLE[(crc ^ column) & 0xFF] ^ (crc >> np.uint32(8))
    crc = ~crc
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)


def _crc_table() -> np.ndarray:
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        # Castagnoli's polynomial, bits reversed.
        crc = np.where(crc & 1, (crc >> np.uint32(1)) ^ np.uint32(0x82F63B78), crc >> np.uint32(1))
    return crc


_CRC_TABLE = _crc_table()
