"""Inputs and outputs of commands at addresses, and what an address has after a failure."""

import pytest

from data_prep.errors import InputError
from data_prep.storage import copies, objects
from data_prep.storage.access import StorageError
from data_prep.storage.copies import fetched, pushed
from data_prep.storage.objects import files_below, read, write


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(copies.tempfile, "tempdir", str(tmp_path / "scratch"))
    return tmp_path


def contents(url):
    return {name: read(f"{url}/{name}") for name in files_below(url)}


def test_paths_of_this_machine_stay(tmp_path):
    with fetched(tmp_path) as read_from, pushed(tmp_path) as written_to:
        assert read_from == tmp_path and written_to == str(tmp_path)


def test_inputs(url, places):
    for name in ("run/a.json", "run/sub/b.json", "run/large.keras", "run/.lock/1.json"):
        write(f"{url}/{name}", name.encode())
    with fetched(f"{url}/run/a.json") as path:
        assert (path.name, path.read_text()) == ("a.json", "run/a.json")
    with fetched(f"{url}/run/", ["*.json"]) as path:
        assert path.name == "run"
        found = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
        assert found == {"a.json", "sub/b.json"}
        with pytest.raises(InputError, match=f"^{url}/run/a.json is bad$"), fetched(f"{url}/run") as copy:
            raise InputError(f"{copy}/a.json is bad")
    with (
        pytest.raises(InputError, match=f"^{url}/nothing must be a file or a folder"),
        fetched(f"{url}/nothing"),
    ):
        pass
    assert not list((places / "scratch").iterdir())


def test_a_file(url, places):
    with pushed(f"{url}/vectors.npy") as path:
        copies.Path(path).write_bytes(b"new")
    assert contents(url) == {"vectors.npy": b"new"}
    assert not list((places / "scratch").iterdir())


def test_a_folder_that_is_replaced(url):
    """Old files go, what is beside the folder stays, and the index is the last file."""
    for name in ("model/README.md", "model/old", "model/variables.index", "model2/other", "model/.lock/1"):
        write(f"{url}/{name}", b"old")
    with pushed(f"{url}/model/") as path:
        folder = copies.Path(path)
        assert (folder / "README.md").read_bytes() == b"old"
        assert (folder / "old").read_bytes() == b""
        copies.shutil.rmtree(folder)
        folder.mkdir()
        for name in ("variables.index", "data"):
            (folder / name).write_bytes(b"new")
    assert contents(f"{url}/model") == {"data": b"new", "variables.index": b"new", ".lock/1": b"old"}
    assert contents(f"{url}/model2") == {"other": b"old"}


def test_a_folder_that_files_are_added_to(url):
    write(f"{url}/all/earlier", b"old")
    with pushed(f"{url}/all") as path:
        copies.Path(path, "later").write_bytes(b"new")
    assert contents(f"{url}/all") == {"earlier": b"old", "later": b"new"}


def test_a_prefix(url):
    for name in ("30k.report.json", "30k.normalization.json", "30k.model", "30kb.model"):
        write(f"{url}/{name}", b"old")
    with pushed(f"{url}/30k", is_prefix=True) as prefix:
        assert copies.Path(f"{prefix}.report.json").read_bytes() == b"old"
        for name in (".model", ".vocab"):
            copies.Path(prefix + name).write_bytes(b"new")
        copies.Path(f"{prefix}.normalization.json").unlink()
    assert contents(url) == {
        "30k.report.json": b"old",
        "30k.model": b"new",
        "30k.vocab": b"new",
        "30kb.model": b"old",
    }


def test_nothing_is_pushed_after_a_failure(url, places):
    write(f"{url}/model/README.md", b"old")
    with pytest.raises(InputError, match=f"^{url}/model is full$"), pushed(f"{url}/model") as path:
        copies.Path(path, "data").write_bytes(b"new")
        raise InputError(f"{path} is full")
    with pytest.raises(KeyboardInterrupt), pushed(f"{url}/model") as path:
        copies.Path(path, "data").write_bytes(b"new")
        raise KeyboardInterrupt
    assert contents(url) == {"model/README.md": b"old"}
    assert not list((places / "scratch").iterdir())


def test_an_address_that_is_only_read():
    with (
        pytest.raises(InputError, match="Received hf://me/model; `albert publish` "),
        pushed("hf://me/model"),
    ):
        pass


def test_what_cannot_be_pushed_is_kept(url, places, monkeypatch):
    def fail(path, url):
        raise StorageError(f"{url} could not be reached.")

    monkeypatch.setattr(objects, "upload", fail)
    with (
        pytest.raises(
            InputError, match=f"^{url}/file could not be reached. What was to be .* in (.*)\\.$"
        ) as error,
        pushed(f"{url}/file") as path,
    ):
        copies.Path(path).write_bytes(b"new")
    assert str(error.value).endswith(f"{path}.")
    assert copies.Path(path).read_bytes() == b"new"
