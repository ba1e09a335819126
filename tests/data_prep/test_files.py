"""Writing complete files, on this machine."""

import sys
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.files import check_local, new_folder, one_process_in, write_text
from data_prep.prepare.unfinished import unfinished_folder


@pytest.mark.parametrize("path", ["gs://bucket/run", "s3:/bucket", Path("hdfs://host/run"), "s3n+x://a"])
def test_storage_elsewhere_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for refuses in (
        check_local,
        lambda path: write_text(path, "text"),
        lambda path: new_folder(path).__enter__(),
    ):
        with pytest.raises(InputError, match="must be on this machine. Received"):
            refuses(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["run", "/run", "a/b:c/d", "C:/run", "tfds:imdb:train", "-", "", "12:30"])
def test_local_paths_are_not(path):
    check_local(path)


def test_windows_has_no_locks(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setattr("sys.platform", "win32")
    with one_process_in(tmp_path), unfinished_folder(tmp_path / "parts", {}) as parts:
        assert parts.is_dir()
    assert not list(tmp_path.iterdir())
