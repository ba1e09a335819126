"""The framing of a TFRecord file: where its records are, and whether it is whole.

A record is: length (8 bytes), masked CRC-32C of the length (4), the payload, masked CRC-32C of the payload (4).
"""

import gzip
import mmap
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import numpy as np

from albert_tf.errors import InputError

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
    """The payloads, one after the other, of a file whose framing is whole."""
    with _opened(path) as content:
        for begin, end in _walk(content, path).tolist():
            yield content[begin:end]


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


class _opened:  # noqa: N801 - used as a function
    """The bytes of a file, mapped, or unpacked if it is GZIP."""

    def __init__(self, path: Path):
        if not path.is_file():
            raise InputError(f"There is no TFRecord file {path}.")
        if path.stat().st_size == 0:
            raise InputError(f"A TFRecord file must hold examples. {path} is empty.")
        self._path = path

    def __enter__(self) -> bytes | mmap.mmap:
        if is_gzip(self._path):
            return self._unpacked()
        with self._path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._map

    def __exit__(self, *exception) -> None:
        if hasattr(self, "_map"):
            self._map.close()

    def _unpacked(self) -> bytes:
        try:
            with gzip.open(self._path) as file:
                content = file.read()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"{self._path} is a damaged GZIP file: {error} Copy it again or prepare it again."
            ) from None
        if not content:
            raise InputError(f"A TFRecord file must hold examples. {self._path} is empty.")
        return content


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
        start = begins[-1] - _HEADER if begins and position > size else position
        raise InputError(
            f"{path} is cut off: the record at byte {start} is not complete in a file of {size} bytes. "
            "Copy it again or prepare it again."
        )
    return np.stack([np.array(begins, np.int64), np.array(ends, np.int64)], axis=1)


def _check_lengths(content: bytes | mmap.mmap, begins: list[int], path: Path) -> None:
    """Checks the CRC of every length; without it the walk might have gone astray."""
    headers = b"".join([content[begin - _HEADER : begin] for begin in begins])
    rows = np.frombuffer(headers, np.uint8).reshape(-1, _HEADER)
    stored = rows[:, 8:].copy().view("<u4")[:, 0]
    wrong = np.flatnonzero(masked_crc32c(rows[:, :8]) != stored)
    if wrong.size or not begins:
        begin = begins[wrong[0]] - _HEADER if wrong.size else 0
        raise InputError(
            f"{path} is not a whole TFRecord file: there is no record at byte {begin}. "
            "Name files that `albert prepare` wrote, or prepare them again."
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
