"""Inputs to bytes: files as they are, compressed ones unpacked on the way, and standard input.

path --UnpackedFile--> lines or blocks of bytes, and how far in the file they were
"""

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from data_prep.errors import InputError

STANDARD_INPUT = Path("-")
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
_BLOCK = 1 << 17  # bytes


class UnpackedFile:
    """The bytes of an input from its beginning to its end; no more than a block of them is in memory.

    Args:
      path: a file, `-` for standard input, or a pipe. What ends in .gz, .bz2, .xz or .zst is unpacked.
      suffix: one of those four for a file that is packed and not named so.

    Attributes:
      name: for messages.
      offset: how many unpacked bytes were given out so far.

    Raises:
      InputError: there is no such file, it cannot be read, is empty or damaged; names the file and the byte.

    >>> with UnpackedFile(Path("emma.txt.gz")) as file:
    ...     lines = list(file)
    [b"Emma\\n", ...]
    """

    def __init__(self, path: Path, suffix: str | None = None):
        self.name = "standard input" if path == STANDARD_INPUT else str(path)
        self.offset = 0
        suffix = path.suffix if suffix is None else suffix
        self._suffix = suffix if suffix in COMPRESSIONS else ""
        unpack = _unpacker(self._suffix)
        self._raw = _opened(path)
        self._file = unpack(self._raw)

    def __enter__(self) -> "UnpackedFile":
        return self

    def __exit__(self, *exception) -> None:
        if self._raw is not sys.stdin.buffer:
            self._raw.close()

    def __iter__(self) -> Iterator[bytes]:
        """Lines, each with its line feed; only \\n ends one."""
        while line := self._taken(self._file.readline):
            yield line
        if not self.offset:
            raise InputError(f"Input files must hold text. {self.name} is empty.")

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer at the end of the file."""
        return self._taken(self._file.read, size)

    @property
    def position(self) -> int:
        """How many bytes of the file itself, packed as it is, were used so far."""
        return self._raw.tell() if self._suffix else self.offset

    def _taken(self, read, *arguments) -> bytes:
        try:
            data = read(*arguments)
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            raise self._damaged(error) from None
        except Exception as error:
            # zstd's error can only be named where that package is there.
            if type(error).__name__ != "ZstdError":
                raise
            raise self._damaged(error) from None
        self.offset += len(data)
        return data

    def _damaged(self, error: Exception) -> InputError:
        if not self._suffix:
            return InputError(f"{self.name} cannot be read after byte {self.offset}: {error}.")
        return InputError(
            f"{self.name} is not a whole {self._suffix} file: it is damaged or cut off at or before byte "
            f"{self.position}, after {self.offset} bytes of text ({str(error).rstrip('.')}). "
            "Make or copy it again."
        )


def check_input(path: Path) -> None:
    """Checks that there is something to open.

    Raises:
      InputError: `path` is a folder or does not exist.
    """
    if path.is_dir():
        raise InputError(f"Input files must be text files. {path} is a folder; write {path}/* for its files.")
    if path != STANDARD_INPUT and not path.exists():
        raise InputError(f"There is no input file {path}.")


def _opened(path: Path) -> Any:
    check_input(path)
    if path == STANDARD_INPUT:
        return sys.stdin.buffer
    try:
        raw = path.open("rb")
    except OSError as error:
        raise InputError(f"The input file {path} cannot be opened: {error.strerror}.") from None
    if not raw.peek(1):
        raw.close()
        raise InputError(f"Input files must hold text. {path} is empty.")
    return raw


def _unpacker(suffix: str) -> Callable[[Any], Any]:
    """What turns an open file into one of unpacked bytes."""
    if not suffix:
        return lambda raw: raw
    module = _zstd() if suffix == ".zst" else {".gz": gzip, ".bz2": bz2, ".xz": lzma}[suffix]
    # With a buffer around it a line costs no call of Python code.
    return lambda raw: io.BufferedReader(module.open(raw, "rb"), _BLOCK)


def _zstd() -> ModuleType:
    try:
        from compression import zstd  # Python 3.14
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            raise InputError(
                "Reading .zst files needs the package backports.zstd. "
                "Install it with `pip install 'albert-tf[zstd]'`, or unpack the files with `zstd -d`."
            ) from None
    return zstd
