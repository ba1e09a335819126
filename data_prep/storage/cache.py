"""Local copies of remote files, in a folder that all processes of a machine share.

CACHE/KEY-SIZE/NAME is a whole file; KEY stands for its address and version, so that a file that is replaced gets
a new entry. A download goes to CACHE/.KEY-SIZE, which is renamed when it is complete.
"""

import collections
import contextlib
import errno
import hashlib
import itertools
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import filelock

from data_prep.errors import InputError, disk_full
from data_prep.files import CACHE, cache_folder
from data_prep.storage.access import MissingFileError, StorageError
from data_prep.storage.objects import Stored, download, stored

BYTES = "ALBERT_TF_CACHE_BYTES"  # the environment variable
_DEFAULT_BYTES = 50 << 30
_ENTRY = re.compile(r"\.?[0-9a-f]{24}-[0-9]+")
_TRIES = 3  # of a file that is replaced while it is downloaded


def fetch(url: str, folder: Path | None = None, most_bytes: int | None = None) -> Path:
    """Downloads a file, or finds the copy of its present version in the cache.

    The copy has the name of the file. It stays until other files need its place; those that were not fetched for
    the longest time go first. A process that has opened it can read it to the end even then (not on Windows,
    where open files stay).

    Args:
      url: the address of a file.
      folder: the cache, by default `files` in `cache_folder()`.
      most_bytes: of all copies together, by default $ALBERT_TF_CACHE_BYTES, or 50 GiB.

    Raises:
      MissingFileError: there is no such file.
      StorageError: the store does not answer, or the file keeps changing.
      InputError: the file is larger than the cache, or the disk is full.
    """
    folder = folder or cache_folder() / "files"
    most_bytes = _bound() if most_bytes is None else most_bytes
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for _ in range(_TRIES):
            file = stored(url)
            if file is None:
                raise MissingFileError(f"{url} must be a file. There is none.")
            if path := _copy(url, file, folder, most_bytes):
                return path
    except OSError as error:
        reason = disk_full(error) or error.strerror or error
        raise InputError(
            f"{url} cannot be copied to the cache {folder}: {reason}. Free space there, or set {CACHE} to a "
            "folder on another disk."
        ) from None
    raise StorageError(
        f"{url} changed {_TRIES} times while it was downloaded. Run the same command again later."
    )


def fetch_ahead(
    urls: Iterable[str], ahead: int = 2, folder: Path | None = None, most_bytes: int | None = None
) -> Iterator[Path]:
    """Yields local copies of files in their order, while a thread downloads the next ones.

    Open each path before you ask for the next: later files may need its place.

    Args:
      urls: the addresses; may be endless.
      ahead: the number of files to download beside the one in use.
      folder: see `fetch`.
      most_bytes: see `fetch`; should hold `ahead + 1` files, or they are downloaded twice.

    Raises:
      InputError: see `fetch`.
    """
    addresses = iter(urls)
    waiting: collections.deque[tuple[str, Future[Path]]] = collections.deque()
    # One thread: copies are then made, and go, in the order of their use. s3fs and gcsfs read parts side by side.
    pool = ThreadPoolExecutor(1, "fetch")
    try:
        while True:
            for url in itertools.islice(addresses, ahead + 1 - len(waiting)):
                waiting.append((url, pool.submit(fetch, url, folder, most_bytes)))
            if not waiting:
                return
            url, copy = waiting.popleft()
            path = copy.result()
            if not path.exists():  # another process needed its place
                path = fetch(url, folder, most_bytes)
            yield path
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _bound() -> int:
    text = os.environ.get(BYTES) or str(_DEFAULT_BYTES)
    if not text.isdecimal():
        raise InputError(f"{BYTES} must be a number of bytes. Received {text!r}.")
    return int(text)


def _copy(url: str, file: Stored, folder: Path, most_bytes: int) -> Path | None:
    """The copy of a version of a file; None if the file was replaced during the download."""
    key = hashlib.sha256(json.dumps([url, *file]).encode()).hexdigest()[:24]
    entry, aside = folder / f"{key}-{file.size}", folder / f".{key}-{file.size}"
    path = entry / url.rpartition("/")[2]
    with contextlib.suppress(FileNotFoundError), _one_at_a_time(folder, key):
        if path.exists():
            os.utime(entry)
            return path
        _make_room(url, folder, aside, file.size, most_bytes)
        try:
            download(url, aside / path.name)
            if stored(url) != file:
                return None
            os.utime(aside)
            aside.rename(entry)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return path
    return None


def _one_at_a_time(folder: Path, key: str) -> filelock.BaseFileLock:
    """A lock that the system releases when its process ends; there are 256 of them, so that they stay few."""
    return filelock.FileLock(folder / f".lock-{key[:2]}")


def _make_room(url: str, folder: Path, aside: Path, size: int, most_bytes: int) -> None:
    """Creates the folder `aside`, which reserves `size` bytes, once the cache and its disk have room for them."""
    if size > most_bytes:
        raise InputError(
            f"{url} has {size:,} bytes. The cache may hold {most_bytes:,}; set {BYTES} to a larger number."
        )
    while True:
        with filelock.FileLock(folder / ".lock-room"):
            _remove_abandoned(folder, aside)
            there = [path for path in folder.iterdir() if _ENTRY.fullmatch(path.name)]
            entries = sorted((path for path in there if path.name[0] != "."), key=_last_use)
            used = sum(map(_bytes_of, there))
            while used + size > most_bytes or shutil.disk_usage(folder).free < size:
                if not entries:
                    break
                used -= _bytes_of(entries[0])
                shutil.rmtree(entries.pop(0), ignore_errors=True)
            if used + size <= most_bytes:
                if shutil.disk_usage(folder).free < size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                aside.mkdir()
                return
        time.sleep(0.1)  # other downloads fill the cache


def _remove_abandoned(folder: Path, aside: Path) -> None:
    """Removes what killed processes left: unlike a running download, it holds no lock.

    The caller holds the lock of `aside`, and of those with which it shares one: these stay.
    """
    for path in folder.glob(".*"):
        if not _ENTRY.fullmatch(path.name):
            continue
        if path == aside:
            shutil.rmtree(path)
        elif path.name[:3] != aside.name[:3]:
            with (
                contextlib.suppress(filelock.Timeout),
                _one_at_a_time(folder, path.name[1:]).acquire(timeout=0),
            ):
                shutil.rmtree(path, ignore_errors=True)


def _bytes_of(entry: Path) -> int:
    return int(entry.name.rpartition("-")[2])


def _last_use(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except FileNotFoundError:  # another process removed it
        return 0.0
