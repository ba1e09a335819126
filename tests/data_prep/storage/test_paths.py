from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.storage import paths
from data_prep.storage.objects import write
from data_prep.text.sources import expand_files


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("s3://bucket/a/b.txt", "s3://bucket/a/b.txt"),
        ("gs://bucket", "gs://bucket"),
        ("file:///tmp/a.txt", "file:///tmp/a.txt"),
        ("tfds:glue/sst2:train", None),
        ("C:/texts/a.txt", None),
        ("texts/a.txt", None),
    ],
)
def test_a_path_keeps_its_address(path, address):
    assert paths.address(path) == paths.address(Path(path)) == address
    assert paths.shown(Path(path)) == path


def test_files_of_a_store(url):
    for name in ("a.txt", "b.txt", "c.md"):
        write(f"{url}/{name}", name.encode())
    a, b = expand_files(f"{url}/*.txt")
    assert [paths.shown(a), paths.shown(b)] == [f"{url}/a.txt", f"{url}/b.txt"]
    assert (paths.file_size(a), paths.file_size(a.with_name("none"))) == (5, None)
    with paths.open_file(a) as file:
        file.seek(2)
        assert file.read() == b"txt"
    assert paths.local_copy(a).read_bytes() == b"a.txt"
    assert paths.local_copy(a).name == "a.txt"
    assert list(paths.copied_ahead([a, Path("local"), b], lambda path: False)) == [a, Path("local"), b]
    assert paths.folder_matches(a.parent, "*.md") == [a.with_name("c.md")]
    with pytest.raises(InputError, match=rf"No file matches '{url}/\*.json'"):
        expand_files(f"{url}/*.json")
    with pytest.raises(InputError, match=f"No file matches '{url}/none'"):
        expand_files(f"{url}/none")


def test_messages_show_addresses(url):
    assert str(InputError(f"{Path(url)} is empty, unlike 1:/2.")) == f"{url} is empty, unlike 1:/2."
