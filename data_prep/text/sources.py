"""Flags to inputs, and inputs to bytes: plain and compressed files, and standard input.

patterns --expand_files--> paths --InputFile--> lines or blocks of bytes, and the position in the file
"""

import bz2
import functools
import glob
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from data_prep.errors import InputError, needs_extra
from data_prep.storage.paths import address, address_matches, file_size, local_copy
from data_prep.text.hub_rows import is_hub
from data_prep.text.tfds_rows import is_tfds

InputFormat = Literal["lines", "prose"]  # how text is divided into documents and sentences
STANDARD_INPUT = Path("-")
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
# How compressed files begin.
_MAGIC = {
    ".gz": rb"\x1f\x8b",
    ".bz2": rb"BZh[1-9]1AY&SY",
    ".xz": rb"\xfd7zXZ\x00",
    ".zst": rb"\x28\xb5\x2f\xfd",
}
_BLOCK = 1 << 17  # bytes


def expand_files(patterns: str) -> list[Path]:
    """The inputs that a flag such as `--input_file` names, each once, sorted within each pattern.

    Patterns are paths and globs, separated by commas ("books/*.txt,extra.jsonl.gz"), "-",
    "tfds:NAME/CONFIG:SPLIT" and "hf://datasets/OWNER/NAME/CONFIG:SPLIT".

    >>> expand_files("books/*.txt")
    [PosixPath('books/emma.txt'), PosixPath('books/ulysses.txt')]
    """
    files: dict[Path, None] = {}
    for part in split_patterns(patterns):
        files.update(dict.fromkeys(_matches(part)))
    if not files:
        raise InputError("At least one input file must be named. Received an empty list.")
    return list(files)


def is_dataset(name: str | Path) -> bool:
    """Whether an input is a dataset of tensorflow-datasets or the Hub, and not a file."""
    return is_tfds(name) or is_hub(name)


def split_patterns(patterns: str) -> list[str]:
    """Splits the value of a flag at its commas, unless it is the name of a file, which may contain some."""
    if os.path.isfile(patterns):  # noqa: PTH113
        return [patterns]
    return [part for part in map(str.strip, patterns.split(",")) if part]


def check_read_twice(what: str, paths: Iterable[Path]) -> None:
    """Raises InputError if an input can be read only once; `what` reads it twice."""
    files = (path for path in paths if not is_dataset(path))
    if any(file_size(path) is None for path in files):
        raise InputError(
            f"{what} reads the text twice, so it needs files. Received standard input or a pipe; write the text "
            "to a file first."
        )


def input_size(path: Path) -> int:
    """Bytes of an input, the sum of its documents' `num_bytes`; 0 if unknown before reading."""
    return 0 if is_dataset(path) or path == STANDARD_INPUT else file_size(path) or 0


def compression_of(path: Path) -> str:
    """The suffix of a compressed file, in small letters; "" for any other.

    >>> compression_of(Path("emma.txt.GZ")), compression_of(Path("emma.txt"))
    ('.gz', '')
    """
    suffix = path.suffix.lower()
    return suffix if suffix in COMPRESSIONS else ""


def compression_by_content(begin: bytes) -> str:
    """The suffix that a file with these first bytes should have; "" if it is not compressed."""
    return next((suffix for suffix, magic in _MAGIC.items() if re.match(magic, begin)), "")


def is_json_array(path: Path) -> bool:
    """Whether a JSON file begins with an array, and not with an object; reads no more than its first lines."""
    with InputFile(path) as file:
        lines = (line.removeprefix(b"\xef\xbb\xbf").lstrip() for line in file)
        return next(filter(None, lines), b"").startswith(b"[")


class InputFile:
    """Reads the bytes of an input, decompressed, with no more than a block in memory.

    Args:
      path: a file, `-` for standard input, or a pipe. Names in .gz, .bz2, .xz and .zst are decompressed.
      suffix: one of those four, for a compressed file with another name.

    Attributes:
      name: for messages.
      offset: decompressed bytes read so far.

    >>> with InputFile(Path("emma.txt.gz")) as file:
    ...     lines = list(file)
    [b"Emma\\n", ...]
    """

    def __init__(self, path: Path, suffix: str | None = None):
        self.name = "standard input" if path == STANDARD_INPUT else str(path)
        self.offset = 0
        self._suffix = compression_of(path) if suffix is None else suffix
        unpack = _unpacker(self._suffix)
        self._raw = _opened(path)
        self._file = unpack(self._raw)

    def __enter__(self) -> "InputFile":
        return self

    def __exit__(self, *exception) -> None:
        if self._raw is not sys.stdin.buffer:
            self._raw.close()

    def __iter__(self) -> Iterator[bytes]:
        """Lines with their line feeds; only \\n ends a line."""
        while line := self._taken(self._file.readline):
            yield line
        if not self.offset:
            raise InputError(f"Input files must hold text. {self.name} is empty.")

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer at the end of the file."""
        return self._taken(self._file.read, size)

    @property
    def position(self) -> int:
        """Bytes of the file, compressed if it is, read so far; decompressed ones if it is a pipe."""
        return self._raw.tell() if self._suffix and self._raw.seekable() else self.offset

    def _taken(self, read, *arguments) -> bytes:
        try:
            data = read(*arguments)
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            raise self._damaged(error) from None
        except Exception as error:
            # zstd's error class exists only if the package is installed.
            if type(error).__name__ != "ZstdError":
                raise
            raise self._damaged(error) from None
        self.offset += len(data)
        return data

    def _damaged(self, error: Exception) -> InputError:
        if not self._suffix:
            return InputError(f"{self.name} cannot be read after byte {self.offset}: {error}.")
        return InputError(
            f"{self.name} is not a complete {self._suffix} file: it is damaged or cut off at or before byte "
            f"{self.position}, after {self.offset} bytes of text ({str(error).rstrip('.')}). "
            "Copy it again or recreate it."
        )


def check_input(path: Path) -> None:
    """Raises InputError if `path` is a folder or does not exist."""
    # Path.is_dir raises an error for a list of files that is longer than a name may be.
    if os.path.isdir(path):  # noqa: PTH112
        raise InputError(f"Input files must be files. {path} is a folder; write {path}/* for its files.")
    if path != STANDARD_INPUT and not address(path) and not os.path.exists(path):  # noqa: PTH110
        raise InputError(f"There is no input file {path}.")


def _opened(path: Path) -> Any:
    check_input(path)
    if path == STANDARD_INPUT:
        return sys.stdin.buffer
    try:
        raw = local_copy(path).open("rb")
    except OSError as error:
        raise InputError(f"The input file {path} cannot be opened: {error.strerror}.") from None
    if not raw.peek(1):
        raw.close()
        raise InputError(f"Input files must hold text. {path} is empty.")
    return raw


def _unpacker(suffix: str) -> Callable[[Any], Any]:
    """The function that turns an open file into one of decompressed bytes."""
    if not suffix:
        return lambda raw: raw
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    if suffix == ".zst":
        zstd: Any = _zstd()
        window = zstd.DecompressionParameter.window_log_max
        # As `zstd --long=31` allows, with which large dumps are compressed.
        openers[suffix] = functools.partial(zstd.open, options={window: window.bounds()[1]})
    # Buffered, so that reading a line runs no Python code.
    return lambda raw: io.BufferedReader(openers[suffix](raw, "rb"), _BLOCK)


def _zstd() -> ModuleType:
    try:
        from compression import zstd  # Python 3.14
    except ImportError:
        with needs_extra("Reading .zst files", "backports.zstd", "zstd"):
            from backports import zstd
    return zstd


def _matches(pattern: str) -> list[Path]:
    if is_dataset(pattern) or Path(pattern) == STANDARD_INPUT:
        return [Path(pattern)]
    if address(pattern):
        return address_matches(pattern)
    # A path that exists is not a pattern. (Path.glob accepts no absolute patterns.)
    exists = os.path.exists(pattern)  # noqa: PTH110
    found = [pattern] if exists else sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    matches = [Path(name) for name in found if not Path(name).is_dir()]
    if not matches:
        if exists or not glob.has_magic(pattern):
            check_input(Path(pattern))
        raise InputError(f"No file matches {pattern!r}. Check the path and the pattern.")
    return matches
