"""Copies on this machine of what a command reads or writes at an address, for the duration of a block.

Both functions yield a path of this machine as it is, and import the rest of this folder for an address only:
portable models run without its packages. Errors of the block name the address, not its copy.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from data_prep.errors import InputError
from data_prep.files import is_hidden
from data_prep.storage.paths import address, naming_address

# By these files a command recognizes what it may replace; of all others it needs no more than the name.
_DESCRIPTIONS = ("README.md", "*.report.json")
_TO_READ = ("hf://", "http://", "https://")  # fsspec has them, too


@contextlib.contextmanager
def fetched(source: str | os.PathLike, names: Sequence[str] = ("*",)) -> Iterator[Path]:
    """Yields a file or folder to read.

    Args:
      source: a path; or an address, whose file is copied to the cache, or whose folder to a temporary one.
      names: patterns of the files of a folder that are needed, `*` also for slashes. Hidden files never are.

    Raises:
      InputError: nothing is stored at the address, or it cannot be read.
    """
    url = address(source)
    if url is None:
        yield Path(source)
        return
    from data_prep.storage.cache import fetch
    from data_prep.storage.objects import download, files_below, join, stored

    with tempfile.TemporaryDirectory(prefix="albert_") as scratch, naming_address(scratch, url):
        if stored(url):
            path = fetch(url)
        else:
            path = Path(scratch, _name(url))
            found = sorted(name for name in files_below(url) if not is_hidden(name))
            if not found:
                raise InputError(f"{url} must be a file or a folder with files. It does not exist.")
            for name in found:
                if any(fnmatchcase(name, pattern) for pattern in names):
                    (path / name).parent.mkdir(parents=True, exist_ok=True)
                    download(join(url, name), path / name)
        with naming_address(path, url):
            yield path


@contextlib.contextmanager
def pushed(output: str | os.PathLike, *, is_prefix: bool = False) -> Iterator[str]:
    """Yields where to write an output: a file, a folder, or all files whose names begin with a prefix.

    At an address this is a temporary place, in which the block finds what is there already: what describes it, and
    empty files in place of the others. If the block succeeds, its files are pushed, the index last, and those that
    it removed or replaced by others are removed. If it fails, nothing is pushed.

    Args:
      output: a path or an address.
      is_prefix: whether the output is not this file or folder but all files OUTPUT.*.

    Raises:
      InputError: the address cannot be written to. What was written stays on this machine; the message says where.
    """
    url = address(output)
    if url is None:
        yield os.fspath(output)
        return
    from data_prep.storage.objects import files_below, find, remove

    url = url.rstrip("/")
    if url.startswith(_TO_READ):
        raise InputError(
            f"Files can be written to stores such as gs:// and s3://. Received {url}; `albert publish` uploads "
            "what is written to hf://OWNER/NAME."
        )
    before = (
        {found.removeprefix(url) for found in find(f"{url}.*")}
        if is_prefix
        else {f"/{name}" for name in files_below(url) if not is_hidden(name)}
    )
    scratch = Path(tempfile.mkdtemp(prefix="albert_"))
    local = f"{scratch}/{_name(url)}"
    keep = False
    try:
        with naming_address(local, url):
            placed = {name: _placed(url, local, name) for name in before}
            yield local
        untouched = {name for name in before if _state(local + name) == placed[name]}
        for name in untouched:
            Path(local + name).unlink()
        try:
            _push(scratch, local, url)
            for name in before - untouched:
                if not Path(local + name).exists():
                    remove(url + name)
        except InputError as error:
            keep = True
            raise InputError(f"{error} What was to be written there is in {local}.") from None
    finally:
        if not keep:
            shutil.rmtree(scratch, ignore_errors=True)


def _push(scratch: Path, local: str, url: str) -> None:
    from data_prep.storage.folders import push
    from data_prep.storage.objects import upload

    if Path(local).is_dir():
        push(Path(local), url)
        return
    for path in sorted(scratch.iterdir(), key=lambda path: (path.suffix == ".model", path.name)):
        upload(path, url + path.name.removeprefix(Path(local).name))


def _placed(url: str, local: str, name: str) -> tuple[int, int] | None:
    """Puts a file that is stored, or an empty one in its place, where the block finds it; returns its state."""
    from data_prep.storage.objects import download

    path = Path(local + name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if any(fnmatchcase(path.name, pattern) for pattern in _DESCRIPTIONS):
        download(url + name, path)
    else:
        path.touch()
    return _state(path)


def _state(path: str | Path) -> tuple[int, int] | None:
    """What changes when a file is written or replaced; None if it was removed."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        status = Path(path).stat()
        return status.st_ino, status.st_mtime_ns
    return None


def _name(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]
