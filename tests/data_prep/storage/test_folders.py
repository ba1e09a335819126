"""Folders are pushed in an order, and complete again after any interruption."""

import json

import fsspec
import pytest

from data_prep.errors import InputError
from data_prep.files import visible_files
from data_prep.storage import folders
from data_prep.storage.folders import pull, push, refresh
from data_prep.storage.objects import Stored, files_below, read, remove, write

MEMORY = type(fsspec.filesystem("memory"))
FILES = {
    **{f"checkpoints/ckpt-4.{name}": name for name in ("data-00000-of-00001", "json", "index")},
    **{"metrics.jsonl": "{}", "best.json": "4", "events/a": "events"},
}


class Killed(BaseException):
    """As after kill -9, nothing more is done."""


@pytest.fixture
def folder(tmp_path):
    fill(tmp_path / "run", FILES)
    fill(tmp_path / "run", {".unfinished/x": "", "checkpoints/.hidden": ""})
    return tmp_path / "run"


def fill(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def requests(monkeypatch):
    """What is written and removed, by the name of the file; an exception at that number of requests."""
    done = []
    done_limit = [10**9]

    def recorded(kind, function):
        def request(self, *args, **kwargs):
            if len(done) >= done_limit[0]:
                raise Killed
            done.append(f"{kind} {args[-1].rpartition('/')[2]}")
            return function(self, *args, **kwargs)

        return request

    for kind, name in (("put", "put_file"), ("rm", "rm_file"), ("get", "get_file")):
        monkeypatch.setattr(MEMORY, name, recorded(kind, getattr(MEMORY, name)))
    done.clear()
    done_limit[0] = 10**9
    return done, done_limit


def contents(url):
    return {name: read(f"{url}/{name}").decode() for name in files_below(url)}


def local_contents(folder):
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".pushed.json"]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def test_only_changes_are_pushed(folder, url, requests):
    done, _ = requests
    push(folder, url)
    assert contents(url) == FILES
    assert len(done) == 6 and done[-3:] == ["put best.json", "put ckpt-4.json", "put ckpt-4.index"]
    done.clear()
    push(folder, url)
    assert not done
    fill(folder, {"metrics.jsonl": "{}\n{}"})
    push(folder, url)
    assert done == ["put metrics.jsonl"]
    write(f"{url}/best.json", b"damage")
    push(folder, url)
    assert contents(url) == FILES | {"metrics.jsonl": "{}\n{}"}


def test_old_files_go_after_new_ones_came(folder, url, requests):
    done, _ = requests
    push(folder, url)
    write(f"{url}/notes.txt", b"of a person")
    done.clear()
    for name in [name for name in FILES if "ckpt-4" in name]:
        (folder / name).unlink()
    fill(folder, new := {f"checkpoints/ckpt-8.{name}": "8" for name in ("data", "json", "index")})
    push(folder, url)
    assert done == [f"put ckpt-8.{name}" for name in ("data", "json", "index")] + [
        f"rm ckpt-4.{name}" for name in ("index", "json", "data-00000-of-00001")
    ]
    kept = {name: text for name, text in FILES.items() if "ckpt-4" not in name}
    assert contents(url) == kept | new | {"notes.txt": "of a person"}


def test_an_index_goes_before_its_data_is_replaced(folder, url, requests):
    done, _ = requests
    push(folder, url)
    done.clear()
    fill(folder, {name: text + " again" for name, text in FILES.items() if "ckpt-4" in name})
    push(folder, url)
    assert done == ["rm ckpt-4.index"] + [
        f"put ckpt-4.{name}" for name in ("data-00000-of-00001", "json", "index")
    ]


def test_another_order(folder, url, requests):
    done, _ = requests
    push(folder, url, order=("*metrics*", "checkpoints/*data*"))
    assert done[-2:] == ["put metrics.jsonl", "put ckpt-4.data-00000-of-00001"]


@pytest.mark.parametrize("limit", range(7))
def test_a_killed_push_shows_no_index_without_its_data(limit, folder, url, requests):
    done, done_limit = requests
    push(folder, url)
    done.clear()
    done_limit[0] = limit
    fill(
        folder,
        {"metrics.jsonl": "8"} | {f"checkpoints/ckpt-8.{name}": "8" for name in ("data", "json", "index")},
    )
    for name in ("data-00000-of-00001", "json", "index"):
        (folder / f"checkpoints/ckpt-4.{name}").unlink()
    with pytest.raises(Killed):
        push(folder, url)
    there = contents(url)
    complete = [
        step
        for step, data in ((4, "data-00000-of-00001"), (8, "data"))
        if f"checkpoints/ckpt-{step}.index" in there
        and {f"checkpoints/ckpt-{step}.json", f"checkpoints/ckpt-{step}.{data}"} <= set(there)
    ]
    assert complete and len(complete) == sum(name.endswith("index") for name in there)
    done_limit[0] = 10**9
    push(folder, url)
    assert contents(url) == {
        name: text for name, text in local_contents(folder).items() if "/." not in f"/{name}"
    }


def test_a_pulled_folder_is_equal_and_pushes_nothing(folder, url, requests, tmp_path):
    done, _ = requests
    push(folder, url)
    done.clear()
    write(f"{url}/.lock/000001.json", b"{}")
    assert pull(url, tmp_path / "new") == 6
    assert local_contents(tmp_path / "new") == FILES
    assert len(done) == 6 and ".ckpt-4.index." in done[-1]
    done.clear()
    push(tmp_path / "new", url)
    assert pull(url, tmp_path / "new") == 6
    assert not done
    fill(tmp_path / "new", {"best.json": "changed here"})
    pull(url, tmp_path / "new")
    assert local_contents(tmp_path / "new") == FILES
    assert pull("memory://bucket/none", tmp_path / "none") == 0 and not (tmp_path / "none").exists()


@pytest.mark.parametrize("limit", range(6))
def test_a_killed_pull_leaves_no_index_without_its_data(limit, folder, url, requests, tmp_path):
    done, done_limit = requests
    push(folder, url)
    done.clear()
    done_limit[0] = limit
    with pytest.raises(Killed):
        pull(url, tmp_path / "new")
    there = local_contents(tmp_path / "new")
    assert there.items() <= FILES.items() and len(there) == limit and "checkpoints/ckpt-4.index" not in there
    done_limit[0] = 10**9
    pull(url, tmp_path / "new")
    assert local_contents(tmp_path / "new") == FILES


def test_a_checkpoint_that_is_removed_during_a_pull(folder, url, tmp_path, monkeypatch):
    push(folder, url)
    get = MEMORY.get_file

    def removed(self, path, local, **kwargs):
        if "ckpt-4" in path:
            for name in [name for name in files_below(url) if "ckpt-4" in name]:
                self.rm_file(f"/bucket/folder/{name}")
        get(self, path, local, **kwargs)

    monkeypatch.setattr(MEMORY, "get_file", removed)
    assert pull(url, tmp_path / "new") == 3
    assert local_contents(tmp_path / "new") == {n: text for n, text in FILES.items() if "ckpt-4" not in n}


def test_a_file_that_is_removed_during_a_push(folder, url, monkeypatch):
    put = MEMORY.put_file

    def removed(self, local, path, **kwargs):
        (folder / "metrics.jsonl").unlink(missing_ok=True)
        put(self, local, path, **kwargs)

    monkeypatch.setattr(MEMORY, "put_file", removed)
    push(folder, url)
    assert contents(url) == {name: text for name, text in FILES.items() if name != "metrics.jsonl"}


def test_names_that_lead_elsewhere(url, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "files_below", lambda url: {"a/../../b": Stored(0, ""), "/b": Stored(0, "")})
    with pytest.raises(InputError, match="must not lead out"):
        pull(url, tmp_path / "deep" / "new")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("record", ["", "[]", '{"url": 1}', json.dumps({"url": "u", "files": {"a": 1}})])
def test_a_damaged_record_is_no_record(record, folder, url, requests):
    done, _ = requests
    fill(folder, {".pushed.json": record.replace('u"', url + '"') if "files" in record else record})
    push(folder, url)
    assert len(done) == 6 and contents(url) == FILES


def test_what_only_changed_here_stays(folder, url, tmp_path):
    """After an outage or a kill; without a record, too."""
    refresh(folder, url)
    push(folder, url)
    (folder / "metrics.jsonl").write_text("{} and more")
    (folder / "best.json").unlink()
    refresh(folder, url)
    assert (folder / "metrics.jsonl").read_text() == "{} and more"
    assert not (folder / "best.json").exists()
    push(folder, url)
    assert contents(url)["metrics.jsonl"] == "{} and more"


@pytest.mark.parametrize("change", ["write", "remove"])
def test_what_changed_there_counts(change, folder, url, tmp_path):
    """Another machine took over, or the user started again."""
    push(folder, url)
    fill(folder, {"metrics.jsonl": "{} and more", "checkpoints/ckpt-8.index": "newer"})
    if change == "write":
        write(f"{url}/best.json", b"8")
    else:
        for name in files_below(url):
            remove(f"{url}/{name}")
    write(f"{url}/.lock/000001.json", b"{}")
    refresh(folder, url)
    here = {path.relative_to(folder).as_posix(): path.read_text() for path in visible_files(folder)}
    assert here == {name: text for name, text in contents(url).items() if not name.startswith(".lock")}
    assert (folder / ".unfinished/x").exists()
    refresh(folder, url)
    fill(folder, {"best.json": "12"})
    refresh(folder, url)
    assert (folder / "best.json").read_text() == "12"
