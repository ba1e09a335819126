"""Reading small files; writing complete files, on this machine."""

import json
import sys
import threading
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.files import (
    check_local,
    decode_json,
    decode_json_lines,
    new_folder,
    one_process_in,
    read_json,
    read_text,
    write_text,
    written_aside,
)
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


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_file_is_complete_or_as_it_was(error, tmp_path):
    path = tmp_path / "file"
    for before in (None, "before"):
        if before:
            write_text(path, before)
        with pytest.raises(error), written_aside(path) as aside:
            aside.write_text("half")
            raise error
        assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == (
            [("file", before)] if before else []
        )
    with written_aside(path) as aside:
        aside.write_text("after")
        assert path.read_text() == "before"
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("file", "after")]


def test_a_byte_order_mark_is_no_text(tmp_path):
    """Windows programs write one."""
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbf" + '{"ä": 1}'.encode())
    assert read_text(tmp_path / "file") == '{"ä": 1}'
    assert read_json(tmp_path / "file") == {"ä": 1}


def test_only_newlines_end_json_lines():
    """JSON may contain U+2028, at which str.splitlines cuts."""
    text = '["a\u2028b", "c\x85"]\n["d"]\n'
    assert decode_json_lines(text, list[str], "here") == [["a\u2028b", "c\x85"], ["d"]]
    with pytest.raises(InputError, match="here, line 2 must be JSON"):
        decode_json_lines('["a"]\n["b"\n', list[str], "here")
    with pytest.raises(InputError, match="here, line 2: Expected `str`, got `int`"):
        decode_json_lines('["a"]\n[1]\n', list[str], "here")


@pytest.mark.parametrize("opening", ["[", '{"a": '])
def test_json_has_at_most_100_levels(opening):
    closing = "]" if opening == "[" else "}"

    def nested(levels: int) -> str:
        return opening * (levels - 1) + "1" + closing * (levels - 1)

    assert decode_json(nested(100), "here") == json.loads(nested(100))
    with pytest.raises(InputError, match="here must be JSON of at most 100 levels. It has more."):
        decode_json(nested(101), "here")
    with pytest.raises(InputError, match="here must be JSON"):
        decode_json(nested(100_000), "here")


def test_json_with_half_a_surrogate_pair():
    """UTF-8 cannot encode it, so that writing it somewhere else would fail."""
    assert decode_json('"\\ud83d\\ude00"', "here") == "😀"
    for text in ('"\\ud83d"', '["\\uDE00"]', '{"\\ud83d": 1}'):
        with pytest.raises(
            InputError, match="here must hold valid Unicode. It has half of a surrogate pair."
        ):
            decode_json(text, "here")


def test_one_process_at_a_time_is_in_a_folder(tmp_path):
    """Locks of two openings exclude each other, in one process too."""
    entered = threading.Event()

    def enter():
        with one_process_in(tmp_path):
            entered.set()

    second = threading.Thread(target=enter)
    with one_process_in(tmp_path):
        second.start()
        assert not entered.wait(0.05)
    second.join()
    assert entered.is_set()
