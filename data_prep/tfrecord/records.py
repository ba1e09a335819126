"""The framing of a TFRecord file: reading, counting and writing its records.

A record is: length (8 bytes), masked CRC-32C of the length (4), the payload, masked CRC-32C of the payload (4).
"""

import contextlib
import gzip
import mmap
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import google_crc32c

from data_prep.errors import InputError
from data_prep.storage.paths import file_size, local_copy, open_file

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_HEADER, _FOOTER = 12, 4
_MAX_LENGTH = 1 << 31  # bytes in a payload; a tf.train.Example cannot be longer
_GZIP_MAGIC = b"\x1f\x8b"


def count_examples(paths: list[Path]) -> list[int]:
    """Counts the records of each file, plain or GZIP, from their headers, without reading the payloads."""
    return [_count(Path(path)) for path in paths]


def read_records(path: Path) -> Iterator[bytes]:
    """Yields the payloads of a TFRecord file, plain or GZIP."""
    check_not_empty(path)
    with open_file(path) as raw, gzip.open(raw) if is_gzip(path) else raw as file:
        yield from read_payloads(lambda size: _read(file, size, path), str(path))


def read_payloads(read: Callable[[int], bytes], name: str) -> Iterator[bytes]:
    """Yields the payloads of an open TFRecord file; checks the lengths but not the payloads' own checksums.

    `read` returns the next bytes of the decompressed file, as many as asked for or all that are left.
    """
    position = 0
    while header := read(_HEADER):
        length = min(_payload_length(header, name, position), _MAX_LENGTH)
        payload = read(length + _FOOTER)
        if len(payload) < length + _FOOTER:
            raise _cut_off(name, position)
        yield payload[:-_FOOTER]
        position += _HEADER + length + _FOOTER
    if not position:
        raise _empty(name)


def framed(payload: bytes) -> bytes:
    """A payload as a record of a TFRecord file.

    >>> framed(b"first").hex()
    '0500000000000000eab2043e66697273740ad06ae4'
    """
    length = _LENGTH.pack(len(payload))
    return b"".join((length, _masked_crc(length), payload, _masked_crc(payload)))


def is_gzip(path: Path) -> bool:
    """Whether a file's content, whatever its name, is GZIP."""
    with open_file(path) as file:
        return file.read(2) == _GZIP_MAGIC


def _count(path: Path) -> int:
    count = position = 0
    with _content(path) as content:
        while position < len(content):
            header = content[position : position + _HEADER]
            end = position + _HEADER + _payload_length(header, str(path), position) + _FOOTER
            if end > len(content):
                raise _cut_off(str(path), position)
            count, position = count + 1, end
    return count


@contextlib.contextmanager
def _content(path: Path) -> Iterator[bytes | mmap.mmap]:
    """The bytes of a file: mapped, or decompressed if it is GZIP."""
    check_not_empty(path)
    if is_gzip(path):
        with gzip.open(local_copy(path)) as compressed:
            content = _read(compressed, -1, path)
        if not content:
            raise _empty(str(path))
        yield content
        return
    with local_copy(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        yield mapped


def check_not_empty(path: Path) -> None:
    """Raises InputError if the file is missing or empty."""
    size = file_size(path)
    if size is None:
        raise InputError(f"There is no TFRecord file {path}.")
    if not size:
        raise _empty(str(path))


def _read(file: gzip.GzipFile | IO[bytes], size: int, path: Path) -> bytes:
    try:
        return file.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is a damaged GZIP file: {error}. Copy it again or recreate it.") from None


def _payload_length(header: bytes, name: str, position: int) -> int:
    if _masked_crc(header[:8]) != header[8:]:
        raise InputError(
            f"{name} is not a complete TFRecord file: there is no record at byte {position}. "
            "Copy it again or recreate it, or name another file."
        )
    return _LENGTH.unpack_from(header)[0]


def _cut_off(name: str, position: int) -> InputError:
    return InputError(
        f"{name} is cut off: the record at byte {position} is not complete. Copy it again or recreate it."
    )


def _empty(name: str) -> InputError:
    return InputError(f"A TFRecord file must hold examples. {name} is empty.")


def _masked_crc(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return _CRC.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
