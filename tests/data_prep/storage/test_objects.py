"""Files of a store in memory and, as in any other that fsspec reads, in a folder of this machine."""

import io
import threading
from pathlib import Path

import fsspec
import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.storage import access, objects
from data_prep.storage.access import MissingFileError, StorageError
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
    stored,
    upload,
    write,
)


@pytest.fixture(params=["memory", "file"])
def folder(request, url, tmp_path):
    return url if request.param == "memory" else f"file://{tmp_path}/new"


def test_files_are_written_listed_and_removed(folder):
    for name in ("a.txt", "b.tsv", "sub/c.txt"):
        write(f"{folder}/{name}", name.encode())
    assert find(f"{folder}/*.txt") == [f"{folder}/a.txt"]
    assert find(f"{folder}/**/*.txt") == [f"{folder}/a.txt", f"{folder}/sub/c.txt"]
    assert find(f"{folder}/a.txt") == [f"{folder}/a.txt"]
    assert find(f"{folder}/none*") == find("memory://empty/*") == []
    assert list(files_below(f"{folder}/")) == ["a.txt", "b.tsv", "sub/c.txt"]
    assert list(files_below(f"{folder}/su")) == list(files_below("memory://none")) == []
    assert exists(folder) and exists(f"{folder}/a.txt") and not exists(f"{folder}/a")
    assert stored(f"{folder}/sub/c.txt").size == 9
    assert stored(folder) is None is stored(f"{folder}/a")
    assert read(f"{folder}/b.tsv") == b"b.tsv"
    remove(f"{folder}/b.tsv")
    remove(f"{folder}/b.tsv")
    for reading in (read, open_binary):
        with pytest.raises(MissingFileError, match="b.tsv must "):
            reading(f"{folder}/b.tsv")


def test_a_new_version_is_noticed(folder):
    write(f"{folder}/a", b"1")
    before = stored(f"{folder}/a")
    assert stored(f"{folder}/a") == before
    write(f"{folder}/a", b"2")
    assert stored(f"{folder}/a") != before


def test_one_of_many_creates(url):
    """In one step, as S3 and GCS do it; fsspec looks and then writes for file://, where two may win."""
    won = []
    write(f"{url}/other", b"")

    def contend(number):
        if create(f"{url}/lock", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [b"%d" % number for number in won] == [read(f"{url}/lock")]


def test_a_creation_whose_answer_was_lost(url, monkeypatch):
    """The second request finds what the first one wrote."""
    memory = type(fsspec.filesystem("memory"))
    whole, answers = memory.pipe_file, iter([True])

    def lose_the_answer(self, path, value, mode="overwrite", **kwargs):
        whole(self, path, value, mode=mode, **kwargs)
        if next(answers, False):
            raise ConnectionResetError

    monkeypatch.setattr(memory, "pipe_file", lose_the_answer)
    monkeypatch.setattr(access.time, "sleep", lambda seconds: None)
    assert create(f"{url}/lock", b"mine")
    assert not create(f"{url}/lock", b"theirs")


def test_reading_with_seek(url, monkeypatch):
    monkeypatch.setattr(objects, "_BLOCK", 100)
    content = np.random.default_rng(0).bytes(1234)
    write(f"{url}/a", content)
    with open_binary(f"{url}/a") as file:
        assert file.read() == content and file.read() == b""
        for position in (0, 7, 1000, 1233, 1234, 5000):
            assert file.seek(position) == position
            assert file.read(150) == content[position : position + 150]
        assert file.seek(-10, io.SEEK_END) == 1224
        assert file.read() == content[-10:]
    write(f"{url}/lines", b"a\nb\n\nc")
    assert list(open_binary(f"{url}/lines")) == [b"a\n", b"b\n", b"\n", b"c"]


def test_a_short_answer_is_an_outage(url, tmp_path, monkeypatch):
    """Never a short file, whatever a store answers."""
    write(f"{url}/a", b"0123456789")
    (tmp_path / "local").write_bytes(b"0123456789")
    memory = type(fsspec.filesystem("memory"))
    cat, put = memory.cat_file, memory.put_file
    shortened = []

    def cut(self, path, start=None, end=None, **kwargs):
        shortened.append(path)
        return cat(self, path, start, end, **kwargs)[: -1 if len(shortened) % 2 else None]

    def get(self, path, local, **kwargs):
        Path(local).write_bytes(cut(self, path))

    def put_a_part(self, local, path, **kwargs):
        shortened.append(path)
        self.pipe_file(path, b"012") if len(shortened) % 2 else put(self, local, path, **kwargs)

    for name, function in (("cat_file", cut), ("get_file", get), ("put_file", put_a_part)):
        monkeypatch.setattr(memory, name, function)
    monkeypatch.setattr(access.time, "sleep", lambda seconds: None)
    assert read(f"{url}/a") == open_binary(f"{url}/a").read() == b"0123456789"
    download(f"{url}/a", tmp_path / "a")
    upload(tmp_path / "local", f"{url}/b")
    assert (
        (tmp_path / "a").read_bytes() == cat(fsspec.filesystem("memory"), "/bucket/folder/b") == b"0123456789"
    )
    assert len(shortened) == 8


def test_a_file_that_changes_while_it_is_read(url):
    write(f"{url}/a", b"0123456789")
    file = open_binary(f"{url}/a")
    assert file.read(3) == b"012"
    write(f"{url}/a", b"9876543210")
    with pytest.raises(StorageError, match="changed while it was read"):
        file.read()


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b", "a\\b", "\0"])
def test_no_name_leads_out_of_its_folder(name):
    assert join("gs://b/run/", "sub/a") == "gs://b/run/sub/a"
    with pytest.raises(InputError, match="must not lead out"):
        join("gs://b/run", name)
