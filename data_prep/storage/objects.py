"""Files of an object store: listed, read, and written as a whole. There is no rename and no append."""

import contextlib
import datetime
import io
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

from data_prep.errors import InputError
from data_prep.storage.access import MissingFileError, StorageError, attempt, in_bucket

T = TypeVar("T")
_BLOCK = 4 << 20  # bytes of one request of a reader
# What identifies a version, by package: an S3 tag, Google's number, times of others.
_VERSIONS = ("ETag", "generation", "etag", "LastModified", "last_modified", "mtime", "created")


class Stored(NamedTuple):
    """A file's size in bytes, and a text that changes whenever the file does."""

    size: int
    version: str


def stored(url: str) -> Stored | None:
    """The size and version of a file; None if there is none, or a folder."""

    def look(file_system: Any, path: str) -> Stored | None:
        info = file_system.info(path)
        return _stored(info) if info["type"] == "file" else None

    with contextlib.suppress(MissingFileError):
        return attempt(url, look)
    return None


def exists(url: str) -> bool:
    """Whether there is a file or a folder at an address."""
    try:
        return bool(attempt(url, lambda file_system, path: file_system.info(path)))
    except MissingFileError:
        return False


def find(pattern: str) -> list[str]:
    """The addresses of the files that match a pattern with `*`, `?`, `[...]` and `**`, sorted; may be empty."""
    return sorted(
        _address(pattern, path)
        for path, info in _listed(
            pattern, lambda file_system, path: file_system.glob(path, detail=True)
        ).items()
        if info["type"] == "file"
    )


def files_below(url: str) -> dict[str, Stored]:
    """The files in a folder and its subfolders by their name relative to it; empty if there is no such folder."""
    url = url.rstrip("/")
    found = _listed(url, lambda file_system, path: file_system.find(path, detail=True))
    root = attempt(url, lambda _, path: path).rstrip("/") + "/"
    return {
        path.removeprefix(root): _stored(info)
        for path, info in found.items()
        if info["type"] == "file" and path.startswith(root) and not path.endswith("/")
    }


def read(url: str) -> bytes:
    """The content of a small file."""

    def whole(file_system: Any, path: str) -> bytes:
        expected = file_system.info(path)["size"]
        content = file_system.cat_file(path)
        if len(content) < expected:
            raise OSError(f"{len(content):,} of {expected:,} bytes arrived")
        return content

    return attempt(url, whole)


def write(url: str, content: bytes) -> None:
    """Writes a small file with one request: readers see the old content or the new one."""
    _write(url, lambda file_system, path: file_system.pipe_file(path, content))


def create(url: str, content: bytes) -> bool:
    """Writes a small file unless there is one; of several callers at the same time only one succeeds.

    Args:
      url: its address.
      content: must differ between callers: when the answer to a request was lost, the content tells whether the
        request was carried out.

    Returns:
      Whether the file is this caller's.
    """
    try:
        _write(url, lambda file_system, path: file_system.pipe_file(path, content, mode="create"))
    except FileExistsError:
        with contextlib.suppress(MissingFileError):
            return read(url) == content
        return False
    return True


def remove(url: str) -> None:
    """Removes a file if it exists."""
    with contextlib.suppress(MissingFileError):
        attempt(url, lambda file_system, path: file_system.rm_file(path))


def download(url: str, path: Path) -> None:
    """Copies a remote file to `path`, which may hold a part of it while this runs and after an error."""

    def whole(file_system: Any, name: str) -> None:
        expected = file_system.info(name)["size"]
        file_system.get_file(name, str(path))
        if path.stat().st_size != expected:
            raise OSError(f"{path.stat().st_size:,} of {expected:,} bytes arrived")

    attempt(url, whole)


def upload(path: Path, url: str) -> Stored:
    """Copies a local file to `url`, where it appears as a whole; returns what is stored then."""
    least = path.stat().st_size  # a log may grow meanwhile

    def whole(file_system: Any, name: str) -> Stored:
        file_system.put_file(str(path), name)
        there = _stored(file_system.info(name))
        if there.size < least:
            raise OSError(f"{there.size:,} of {least:,} bytes arrived")
        return there

    return _write(url, whole)


def open_binary(url: str) -> BinaryIO:
    """Opens a file for reading, with `seek`. Outages are retried; a read never ends before the file does.

    Raises:
      MissingFileError: there is no such file.
      StorageError: when reading, the file was replaced or the store does not answer.
    """
    return cast(BinaryIO, io.BufferedReader(_Reader(url), _BLOCK))


class _Reader(io.RawIOBase):
    """Reads ranges, each with a request of its own."""

    def __init__(self, url: str):
        self._url, self._stored, self._position = url, _needed(url), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._stored.size}[whence]
        if start + offset < 0:
            raise ValueError(f"a position must be at least 0. Received {start + offset}.")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        start = self._position
        end = min(start + len(buffer), self._stored.size)
        if end <= start:
            if stored(self._url) != self._stored:
                raise StorageError(f"{self._url} changed while it was read. Run the same command again.")
            return 0

        def part(file_system: Any, path: str) -> bytes:
            content = file_system.cat_file(path, start=start, end=end)
            if len(content) != end - start:
                raise OSError(f"{len(content):,} of {end - start:,} bytes arrived")
            return content

        buffer[: end - start] = attempt(self._url, part)
        self._position = end
        return end - start


def join(url: str, name: str) -> str:
    """The address of a file in a folder.

    Raises:
      InputError: the name leads out of the folder.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise InputError(f"Names of files must not lead out of {url}. Received {name!r}.")
    return f"{url.rstrip('/')}/{name}"


def _write(url: str, action: Callable[[Any, str], T]) -> T:
    def in_folder(file_system: Any, path: str) -> T:
        if not in_bucket(url):
            file_system.makedirs(path.rpartition("/")[0], exist_ok=True)
        return action(file_system, path)

    return attempt(url, in_folder)


def _needed(url: str) -> Stored:
    found = stored(url)
    if found is None:
        raise MissingFileError(f"{url} must be a file. There is none.")
    return found


def _stored(info: dict[str, Any]) -> Stored:
    version = next((info[name] for name in _VERSIONS if info.get(name) is not None), "")
    if isinstance(version, datetime.datetime):  # of one file, where a listing may have a number
        version = version.timestamp()
    return Stored(info["size"], str(version).strip('"'))


def _listed(url: str, listing: Callable[[Any, str], dict[str, Any]]) -> dict[str, Any]:
    """What a listing finds. For a bucket that does not exist, some stores answer as for an empty one."""

    def found(file_system: Any, path: str) -> dict[str, Any]:
        result = listing(file_system, path)
        if not result:
            raise FileNotFoundError(path)  # looks whether there is a bucket
        return result

    try:
        return attempt(url, found)
    except MissingFileError:
        return {}


def _address(url: str, path: str) -> str:
    """The address of a path that a file system gave, with the scheme of `url`."""
    if "://" in path:  # HTTP
        return path
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{path if rest.startswith('/') else path.lstrip('/')}"
