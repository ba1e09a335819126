"""Local copies: whole or absent, bounded, shared by processes."""

import errno
import itertools
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import fsspec
import pytest

from data_prep.errors import InputError
from data_prep.storage import access
from data_prep.storage.access import MissingFileError, StorageError
from data_prep.storage.cache import BYTES, fetch, fetch_ahead
from data_prep.storage.objects import write
from tests.disks import mounted_disk

MEMORY = type(fsspec.filesystem("memory"))
GET = MEMORY.get_file


@pytest.fixture
def downloads(monkeypatch):
    """The paths that are downloaded."""
    paths = []

    def get(self, path, local, **kwargs):
        paths.append(path)
        GET(self, path, local, **kwargs)

    monkeypatch.setattr(MEMORY, "get_file", get)
    return paths


def entries(cache):
    return sorted(path.name for path in cache.glob("[!.]*/*"))


def test_a_version_is_downloaded_once(url, tmp_path, downloads):
    for content in (b"first", b"other"):
        write(f"{url}/train.tfrecord.gz", content)
        for _ in range(2):
            path = fetch(f"{url}/train.tfrecord.gz", tmp_path)
            assert path.name == "train.tfrecord.gz" and path.read_bytes() == content
    assert len(downloads) == 2
    with pytest.raises(MissingFileError):
        fetch(f"{url}/none", tmp_path)


def test_folder_and_bound_come_from_the_environment(url, tmp_path, monkeypatch):
    write(f"{url}/a", b"0123")
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path))
    assert fetch(f"{url}/a").is_relative_to(tmp_path / "files")
    write(f"{url}/a", b"01234")
    monkeypatch.setenv(BYTES, "4")
    with pytest.raises(
        InputError, match=f"{url}/a has 5 bytes. The cache may hold 4; set {BYTES} to a larger"
    ):
        fetch(f"{url}/a")
    monkeypatch.setenv(BYTES, "4 GB")
    with pytest.raises(InputError, match=f"{BYTES} must be a number of bytes. Received '4 GB'."):
        fetch(f"{url}/a")


def test_what_was_not_used_for_longest_goes_first(url, tmp_path, downloads):
    for name in "abcd":
        write(f"{url}/{name}", b"0123")
    for age, name in enumerate("cba"):
        os.utime(fetch(f"{url}/{name}", tmp_path, 12).parent, (age, age))
    fetch(f"{url}/c", tmp_path, 12)
    fetch(f"{url}/d", tmp_path, 12)
    assert entries(tmp_path) == ["a", "c", "d"]
    fetch(f"{url}/d", tmp_path, 5)
    assert len(downloads) == 4
    fetch(f"{url}/b", tmp_path, 5)
    assert entries(tmp_path) == ["b"]


def test_an_error_leaves_nothing(url, tmp_path, monkeypatch):
    write(f"{url}/a", b"0123456789")

    def full(self, path, local, **kwargs):
        Path(local).write_bytes(b"012")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(MEMORY, "get_file", full)
    with pytest.raises(
        InputError, match="cannot be copied to the cache .*: No space left .* set ALBERT_TF_CACHE"
    ):
        fetch(f"{url}/a", tmp_path)
    monkeypatch.setattr(
        MEMORY, "get_file", lambda self, path, local, **kwargs: Path(local).write_bytes(b"012")
    )
    monkeypatch.setattr(access, "PATIENCE", 0)
    with pytest.raises(StorageError, match="3 of 10 bytes arrived"):
        fetch(f"{url}/a", tmp_path)
    assert not entries(tmp_path) and not list(tmp_path.glob(".*/*"))


def test_a_full_disk_makes_room(url, tmp_path):
    """Other copies go; only a file that is larger than the disk is refused."""
    for name, count in (("a", 60_000), ("b", 60_000), ("c", 300_000)):
        write(f"{url}/{name}", bytes(count))
    with mounted_disk(tmp_path, "size=128k"):
        for name in "aba":
            assert fetch(f"{url}/{name}", tmp_path).stat().st_size == 60_000
        with pytest.raises(
            InputError, match="cannot be copied to the cache .*: No space left on device. Free space"
        ):
            fetch(f"{url}/c", tmp_path)


def test_a_file_that_is_replaced_during_the_download(url, tmp_path, monkeypatch):
    write(f"{url}/a", b"0")
    versions = iter([b"1", b"2"])

    def get(self, path, local, **kwargs):
        GET(self, path, local, **kwargs)
        for content in itertools.islice(versions, 1):
            self.pipe_file(path, content)

    monkeypatch.setattr(MEMORY, "get_file", get)
    assert fetch(f"{url}/a", tmp_path).read_bytes() == b"2"
    versions = itertools.cycle([b"3", b"4"])
    write(f"{url}/a", b"0")
    with pytest.raises(StorageError, match="changed 3 times"):
        fetch(f"{url}/a", tmp_path)


def test_fetching_ahead(url, tmp_path, downloads):
    urls = [f"{url}/{number}" for number in range(10)]
    for number, address in enumerate(urls):
        write(address, b"%d" % number)
    assert [path.read_bytes() for path in fetch_ahead(urls, 2, tmp_path)] == [b"%d" % n for n in range(10)]
    copies = fetch_ahead(itertools.cycle(urls), 2, tmp_path / "small", most_bytes=3)
    assert [next(copies).read_bytes() for _ in range(25)] == [b"%d" % (n % 10) for n in range(25)]
    assert len(entries(tmp_path / "small")) <= 3
    copies.close()
    with pytest.raises(MissingFileError, match="/none must be a file"):
        list(fetch_ahead([urls[0], f"{url}/none"], 2, tmp_path))
    assert list(fetch_ahead([])) == []


def test_the_next_files_are_on_their_way(url, tmp_path, monkeypatch):
    for name in "abc":
        write(f"{url}/{name}", b"")
    begun = threading.Semaphore(0)

    def get(self, path, local, **kwargs):
        begun.release()
        GET(self, path, local, **kwargs)

    monkeypatch.setattr(MEMORY, "get_file", get)
    copies = fetch_ahead([f"{url}/{name}" for name in "abc"], 2, tmp_path)
    next(copies)
    for _ in range(3):
        assert begun.acquire(timeout=10)
    copies.close()


def _fetch_slowly(url: str, cache: str, begun) -> None:
    """In a process of its own: a download that writes a part and waits."""

    def get(self, path, local, **kwargs):
        Path(local).write_bytes(b"012")
        begun.set()
        time.sleep(600)

    local = type(fsspec.filesystem("file"))
    local.get_file = get
    fetch(url, Path(cache))


@pytest.mark.slow
def test_a_killed_process_leaves_nothing(tmp_path):
    """Its part is not taken for a file, does not count for ever, and is removed by any later download."""
    source, cache = tmp_path / "source", tmp_path / "cache"
    source.mkdir()
    for name in "ab":
        (source / name).write_bytes(b"0123456789")
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    process = context.Process(target=_fetch_slowly, args=(f"file://{source}/a", str(cache), begun))
    process.start()
    assert begun.wait(60)
    (part,) = cache.glob(".*/a")
    fetch(f"file://{source}/b", cache)
    assert entries(cache) == ["b"] and part.exists()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert fetch(f"file://{source}/a", cache).read_bytes() == b"0123456789"
    assert entries(cache) == ["a", "b"] and not part.exists()


def test_what_a_killed_process_left_is_no_room_lost(url, tmp_path):
    (tmp_path / f".{'0' * 24}-10").mkdir()
    (tmp_path / f".{'0' * 24}-10" / "part").write_bytes(b"01")
    write(f"{url}/a", b"0123")
    fetch(f"{url}/a", tmp_path, 4)
    assert entries(tmp_path) == ["a"] and not list(tmp_path.glob(".*/part"))
