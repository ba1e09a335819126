"""Copies of a local folder in an object store, and back.

A store has no rename for folders. What makes a half-written folder harmless is the order: data first, then
checksums, and last the index, without which readers ignore the data.
"""

import fnmatch
import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from data_prep.errors import InputError
from data_prep.files import as_record, read_json, visible_files, write_json
from data_prep.storage.access import MissingFileError, StorageError
from data_prep.storage.objects import Stored, download, files_below, join, remove, upload

# Patterns of names, `*` also for slashes. What matches none comes first; the index matches the last one.
ORDER = ("*.json", "*.index")
_RECORD = ".pushed.json"  # in the local folder: what is equal here and there
_TRIES = 3  # of a folder that is pushed to while it is pulled
# By name: size and time of the local file in nanoseconds, size and version of the remote one.
_Record = dict[str, tuple[int, int, int, str]]


def push(folder: Path, url: str, order: Sequence[str] = ORDER) -> None:
    """Makes a remote folder equal to a local one, in an order in which readers see no index without its data.

    Uploads the files that changed since the last `push` or `pull`, then removes there what was removed here
    since then, the index first. Other files at `url` stay, as do hidden files here (names that begin with "."). If
    the index and a file before it in the order are both replaced, the old index is removed first.

    A process that is killed leaves whole files, and no index without its data; the next `push` completes the work.

    Args:
      folder: the local folder; `.pushed.json` in it records what is equal there.
      url: the remote folder.
      order: patterns of file names, from the first to the last to upload.

    Raises:
      InputError: see `attempt`.
    """
    record, there = _read_record(folder, url), files_below(url)
    rank = _ranks(order)
    here = {path.relative_to(folder).as_posix(): path for path in visible_files(folder)}
    changed = [
        name
        for name, path in sorted(here.items(), key=lambda item: (rank(item[0]), item[0]))
        if not _is_equal(path, there.get(name), record.get(name))
    ]
    replaced = [name for name in changed if name in there]
    if any(rank(name) < len(order) for name in replaced):
        for name in replaced:
            if rank(name) == len(order):
                remove(join(url, name))
    for name in changed:
        try:
            status = here[name].stat()
            record[name] = (status.st_size, status.st_mtime_ns, *upload(here[name], join(url, name)))
        except (FileNotFoundError, MissingFileError):
            if here[name].exists():
                raise
            continue  # removed meanwhile, as old checkpoints are
        _write_record(folder, url, record)
    for name in sorted(record, key=rank, reverse=True):
        if not (folder / name).exists():
            if name in there:
                remove(join(url, name))
            del record[name]
            _write_record(folder, url, record)


def pull(url: str, folder: Path, order: Sequence[str] = ORDER) -> int:
    """Copies the files of a remote folder into a local one, in the order in which they were pushed.

    Files that are equal already are not copied again. Files that only exist here stay: use an empty folder for an
    exact copy.

    Args:
      url: the remote folder; nothing is copied if it does not exist.
      folder: the local folder, created if there is something to copy.
      order: as for `push`.

    Returns:
      The number of files there, apart from hidden ones.

    Raises:
      InputError: see `attempt`; or a name leads out of the folder.
    """
    rank = _ranks(order)
    for _ in range(_TRIES):
        record, there = _read_record(folder, url), _visible(files_below(url))
        try:
            for name in sorted(there, key=lambda name: (rank(name), name)):
                address, path = join(url, name), folder / name
                if path.exists() and _is_equal(path, there[name], record.get(name)):
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
                try:
                    download(address, aside)
                    aside.replace(path)
                finally:
                    aside.unlink(missing_ok=True)
                status = path.stat()
                record[name] = (status.st_size, status.st_mtime_ns, *there[name])
                _write_record(folder, url, record)
        except MissingFileError:  # removed since it was listed, as old checkpoints are
            continue
        return len(there)
    raise StorageError(
        f"Files of {url} disappeared {_TRIES} times while they were copied. Run the same command again."
    )


def refresh(folder: Path, url: str, order: Sequence[str] = ORDER) -> None:
    """Makes a local folder equal to a remote one, unless only the local one changed since they were equal.

    What was not pushed, because of an outage or a kill, stays to be pushed. If another machine has pushed since,
    its files replace those here.

    Args:
      folder: the local folder, which need not exist.
      url: the remote folder.
      order: as for `push`.

    Raises:
      InputError: see `pull`.
    """
    record, there = _read_record(folder, url), _visible(files_below(url))
    if there == {name: Stored(size, version) for name, (_, _, size, version) in record.items()}:
        return
    for path in visible_files(folder):
        if path.relative_to(folder).as_posix() not in there:
            path.unlink()
    if record.keys() - there.keys():
        _write_record(folder, url, {name: facts for name, facts in record.items() if name in there})
    pull(url, folder, order)


def _visible(files: dict[str, Stored]) -> dict[str, Stored]:
    """Without hidden files: locks, and those that are not finished."""

    def is_hidden(name: str) -> bool:
        return any(part.startswith(".") and part != ".." for part in PurePosixPath(name).parts)

    return {name: file for name, file in files.items() if not is_hidden(name)}


def _ranks(order: Sequence[str]) -> Callable[[str], int]:
    """The place of a name in the order: that of the last pattern that matches, 0 if none does."""

    def rank(name: str) -> int:
        return max((i for i, pattern in enumerate(order, 1) if fnmatch.fnmatchcase(name, pattern)), default=0)

    return rank


def _is_equal(path: Path, there: Stored | None, known: tuple[int, int, int, str] | None) -> bool:
    """Whether neither the local file nor the remote one changed since they were known to be equal."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return True  # nothing to upload
    return there is not None and known == (status.st_size, status.st_mtime_ns, *there)


def _read_record(folder: Path, url: str) -> _Record:
    try:
        content = read_json(folder / _RECORD)
        return as_record(_Record, content["files"], folder / _RECORD) if content["url"] == url else {}
    except (InputError, KeyError, TypeError):  # there is none: then all files are copied
        return {}


def _write_record(folder: Path, url: str, record: _Record) -> None:
    write_json(folder / _RECORD, {"url": url, "files": record})
