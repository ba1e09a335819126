"""Addresses as paths: `Path("s3://bucket/text.txt")`, which Python writes s3:/bucket/text.txt.

Whoever reads a file that a user names asks these functions in place of the path's own methods; they answer for
files of this machine, too.
"""

import contextlib
import glob
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from data_prep.errors import DiskFullError, InputError
from data_prep.files import is_remote

_LOCAL = ("file", "local")  # fsspec's schemes of this machine, whose paths begin with a slash
_NATIVE = ("gs",)  # TensorFlow reads them itself


def address(path: str | os.PathLike) -> str | None:
    """The address that a path stands for; None for a file of this machine.

    >>> address(Path("s3://bucket/text.txt")), address("text.txt")
    ('s3://bucket/text.txt', None)
    """
    if not is_remote(path):
        return None
    scheme, _, rest = os.fspath(path).partition(":")
    return f"{scheme}://{'/' if scheme in _LOCAL else ''}{rest.lstrip('/')}"


def shown(path: str | os.PathLike) -> str:
    """A path as its user wrote it, for messages."""
    return address(path) or os.fspath(path)


@contextlib.contextmanager
def naming_address(copy: str | os.PathLike, url: str) -> Iterator[None]:
    """Errors in the block name the address in place of its copy on this machine, unless the disk is full."""
    try:
        yield
    except InputError as error:
        if isinstance(error, DiskFullError) or str(copy) not in str(error):
            raise
        raise type(error)(str(error).replace(str(copy), url)) from None


def file_size(path: Path) -> int | None:
    """The size of a file in bytes; None if there is none."""
    url = address(path)
    if url is None:
        return path.stat().st_size if path.is_file() else None
    from data_prep.storage.objects import stored

    found = stored(url)
    return found.size if found else None


def open_file(path: Path) -> BinaryIO:
    """Opens a file to read it, with `seek`; of a remote one only what is read is transferred."""
    url = address(path)
    if url is None:
        return path.open("rb")
    from data_prep.storage.objects import open_binary

    return open_binary(url)


def local_copy(path: Path) -> Path:
    """The path of a file on this machine: a remote one is copied to the cache."""
    url = address(path)
    if url is None:
        return path
    from data_prep.storage.cache import fetch

    return fetch(url)


def name_for_tensorflow(path: Path) -> str:
    """The name under which TensorFlow reads a file: for gs:// the address, for others that of a local copy."""
    url = address(path)
    return url if url and url.partition("://")[0] in _NATIVE else str(local_copy(path))


def copied_ahead(paths: Iterable[Path], is_streamed: Callable[[Path], bool]) -> Iterator[Path]:
    """Yields the same paths; a remote file is in the cache by then, and the next ones are on their way there.

    Args:
      paths: of files, and of inputs that are no files.
      is_streamed: whether an input is no file.
    """
    paths = list(paths)
    remote = {path: url for path in paths if not is_streamed(path) and (url := address(path))}
    if not remote:
        yield from paths
        return
    from data_prep.storage.cache import fetch_ahead

    copies = fetch_ahead(remote[path] for path in paths if path in remote)
    for path in paths:
        if path in remote:
            next(copies)
        yield path


def address_matches(pattern: str) -> list[Path]:
    """The files that an address, perhaps with `*`, `?`, `[...]` and `**`, names."""
    from data_prep.storage.objects import find

    url = address(pattern)
    assert url
    found = find(url) if glob.has_magic(url) else [url] * (file_size(Path(url)) is not None)
    if not found:
        raise InputError(f"No file matches {url!r}. Check the address and the pattern.")
    return list(map(Path, found))


def folder_matches(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder whose names match a pattern, sorted."""
    url = address(folder)
    if url is None:
        return sorted(path for path in folder.glob(pattern) if path.is_file())
    from data_prep.storage.objects import find

    return list(map(Path, find(f"{url.rstrip('/')}/{pattern}")))
