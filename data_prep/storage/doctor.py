"""Tries an address of an object store as commands use it: what works, what is missing, how fast it is."""

import contextlib
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from data_prep.errors import InputError, first_line
from data_prep.storage.access import attempt
from data_prep.storage.locks import Lock
from data_prep.storage.objects import (
    create,
    download,
    exists,
    files_below,
    find,
    join,
    open_binary,
    read,
    remove,
    upload,
    write,
)

_CONTENT = b"written by albert doctor\n"
_FILES, _FILE_BYTES = 4, 2 << 20  # for the rates
STEPS = 10 + 2 * _FILES  # of the progress, at most

ReadNatively = Callable[[str], bytes]


class Finding(NamedTuple):
    """What one check found.

    Attributes:
      name: what was tried.
      works: whether it works; None if it was not tried.
      detail: figures, or a sentence on what is missing.
    """

    name: str
    works: bool | None
    detail: str = ""


def examine(
    url: str, read_natively: ReadNatively | None = None, advance: Callable[[], None] = lambda: None
) -> list[Finding]:
    """Finds what works at an address. It writes in a folder of its own there, and removes it, also on Ctrl-C.

    Args:
      url: a bucket or a folder, which need not exist.
      read_natively: TensorFlow's own way to read the content of an address, if it has one for this scheme.
      advance: is called after each step.
    """
    folder = join(url, f"albert_doctor_{uuid.uuid4().hex[:12]}")
    file = join(folder, "file")
    findings: list[Finding] = []

    def tried(name: str, action: Callable[[], str | None]) -> bool:
        try:
            findings.append(Finding(name, True, action() or ""))
        except InputError as error:
            findings.append(Finding(name, False, str(error)))
        except Exception as error:  # of any class, from a package that does not support the action
            findings.append(Finding(name, False, f"{type(error).__name__}: {first_line(error)}"))
        advance()
        return bool(findings[-1].works)

    lists = tried("list", lambda: _list(url))
    if not lists and "refuses access" not in findings[0].detail:  # rights to list may be others than to write
        return [*findings, Finding("write", None), Finding("read", None)]
    try:
        if not tried("write", lambda: write(file, _CONTENT)):
            if lists:
                tried("read", lambda: _read_any(url))
            return findings
        tried("read", lambda: _check(read(file) == _CONTENT, f"{file} has other content than was written."))
        tried("find what was written", lambda: _check_listed(folder))
        tried("create only once", lambda: _create_twice(join(folder, "once")))
        tried("lock", lambda: _lock_twice(folder))
        with tempfile.TemporaryDirectory(prefix="albert_") as scratch:
            if tried("upload", lambda: _measure(Path(scratch), folder, upload, advance)):
                tried("download", lambda: _measure(Path(scratch), folder, _download_again, advance))
        if read_natively:
            other = "TensorFlow reads other content than was written."
            tried("read by TensorFlow", lambda: _check(read_natively(file) == _CONTENT, other))
        tried("remove", lambda: _remove(folder))
        return findings
    finally:
        _clean(folder)


def _list(url: str) -> str:
    if not exists(url):  # raises InputError if there is no bucket
        return "nothing is stored there yet"
    number = len(attempt(url, lambda file_system, path: file_system.ls(path, detail=False)))
    return f"{number:,} {'entry' if number == 1 else 'entries'}"


def _read_any(url: str) -> str:
    """Reads the beginning of a file that is there, where nothing may be written."""
    for name in find(f"{url.rstrip('/')}/*"):
        with open_binary(name) as file:
            file.read(1)
        return name
    return "there is no file to read"


def _check(condition: bool, sentence: str) -> None:
    if not condition:
        raise InputError(sentence)


def _check_listed(folder: str) -> None:
    _check(list(files_below(folder)) == ["file"], f"A file in {folder} is written and not listed.")


def _create_twice(file: str) -> None:
    """Two processes that create the same file at the same time: one must fail."""
    together = threading.Barrier(2)

    def take(content: bytes) -> bool:
        together.wait()
        return create(file, content)

    with ThreadPoolExecutor(2) as pool:
        created = sum(pool.map(take, (b"one", b"two")))
    _check(
        created == 1 and not create(file, b"three"),
        "A file can be created twice, so two runs that use one address may not notice each other.",
    )


def _lock_twice(folder: str) -> None:
    with Lock(folder):
        try:
            Lock(folder).__enter__()
        except InputError:
            return
    raise InputError("A lock can be taken twice, so two runs that use one address do not notice each other.")


def _measure(
    scratch: Path, folder: str, transfer: Callable[[Path, str], Any], advance: Callable[[], None]
) -> str:
    """Megabytes per second, of some files."""
    seconds = 0.0
    for name in (f"speed-{i}" for i in range(_FILES)):
        path = scratch / name
        content = path.read_bytes() if path.exists() else os.urandom(_FILE_BYTES)
        path.write_bytes(content)
        begin = time.perf_counter()
        transfer(path, join(folder, name))
        seconds += time.perf_counter() - begin
        _check(path.read_bytes() == content, f"{folder}/{name} has other content than was written.")
        advance()
    return f"{_FILES * _FILE_BYTES / seconds / 1e6:,.1f} MB/s"


def _download_again(path: Path, url: str) -> None:
    path.unlink()
    download(url, path)


def _remove(folder: str) -> None:
    for name in files_below(folder):
        remove(join(folder, name))
    left = files_below(folder)
    _check(not left, f"{len(left)} files of {folder} are still there after they were removed.")


def _clean(folder: str) -> None:
    """Removes what is left, as far as that is allowed; where there are folders, also the empty folder."""
    with contextlib.suppress(Exception):  # a row says so
        _remove(folder)
        if exists(folder):
            attempt(folder, lambda file_system, path: file_system.rm(path, recursive=True))
