"""Archives at web addresses, from a local server, and Kaggle's models."""

import email.message
import http.server
import io
import itertools
import re
import sys
import tarfile
import types
import urllib.response
from pathlib import Path

import pytest

from albert_tf.checkpoints import downloads
from albert_tf.checkpoints.downloads import download
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.tf1 import write_tf1
from data_prep.errors import InputError
from data_prep.files import cache_folder
from tests.albert_tf.checkpoints.processes import serving
from tests.albert_tf.checkpoints.random_models import (
    CONFIGS,
    assert_same_weights,
    random_stored,
    random_weights,
)

CONFIG = CONFIGS["two groups"]


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        served, contents = self.server.served, self.server.contents
        served.append(self.path)
        if self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/moved"))
            self.end_headers()
        elif self.path in contents:
            content = contents[self.path]
            claimed = len(content) + (1000 if "broken" in self.path else 0)
            self.send_response(200)
            if "unknown" not in self.path:
                self.send_header("Content-Length", str(claimed))
            self.end_headers()
            self.wfile.write(content)
        else:
            self.send_error(404)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serves `contents`, path -> bytes, and lists what was asked for in `served`."""
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.contents, server.served = {}, []
    server.address = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        yield server


def tar_gz(folder: Path, name: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(folder, name)
    return buffer.getvalue()


@pytest.fixture
def archive(tmp_path):
    """An archive like Google's: a folder with a checkpoint, its configuration and its vocabulary."""
    (tmp_path / "albert_base").mkdir()
    write_tf1(random_stored(CONFIG), tmp_path / "albert_base")
    return tar_gz(tmp_path / "albert_base", "albert_base")


def test_archives_are_downloaded_once(server, archive, tmp_path):
    server.contents["/albert_models/albert_base_v2.tar.gz"] = archive
    address = f"{server.address}/albert_models/albert_base_v2.tar.gz"
    stored = open_model(address)
    assert_same_weights(stored.weights, random_weights(CONFIG))
    assert (stored.format, stored.missing) == ("tf1", ())
    assert stored.vocabulary is not None
    assert_same_weights(open_model(address).weights, stored.weights)
    assert len(server.served) == 1
    (folder,) = (tmp_path / "cache").iterdir()  # nothing else is left
    assert re.fullmatch(r"albert_base_v2-[0-9a-f]{12}", folder.name)
    assert (folder / "albert_config.json").exists()


@pytest.mark.parametrize(
    "path", ["/moved/a.tar.gz", "/a.tar.gz?raw=1", "/unknown/length", "/%2e%2e/a%2Fb.tgz"]
)
def test_addresses_of_archives(server, archive, tmp_path, path):
    server.contents[path.removeprefix("/moved")] = archive
    assert_same_weights(open_model(server.address + path).weights, random_weights(CONFIG))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["albert_base", "cache"]


def test_archives_of_the_same_name_are_kept_apart(server, archive, tmp_path):
    other = random_stored(CONFIGS["one group"])
    (tmp_path / "other").mkdir()
    write_tf1(other, tmp_path / "other")
    server.contents = {"/1/model.tar.gz": archive, "/2/model.tar.gz": tar_gz(tmp_path / "other", ".")}
    assert_same_weights(open_model(f"{server.address}/1/model.tar.gz").weights, random_weights(CONFIG))
    assert_same_weights(open_model(f"{server.address}/2/model.tar.gz").weights, other.weights)


def link_archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        link = tarfile.TarInfo("albert/../../../outside")
        link.size = 5
        tar.addfile(link, io.BytesIO(b"wrong"))
    return buffer.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("/absent.tar.gz", None, "cannot be downloaded: HTTP Error 404: Not Found. If this machine has no"),
        ("/broken.tar.gz", b"half", "the connection broke after 4 of 1,004 bytes"),
        ("/page.tar.gz", b"<html>", "page.tar.gz is not a complete tar archive"),
        ("/wrong.tar.gz", link_archive(), "wrong.tar.gz holds the path .* which leads out of it"),
        ("/large.tar.gz", bytes(2000), "large.tar.gz has more than 1,500 bytes"),
        ("/unknown.tar.gz", bytes(2000), "unknown.tar.gz has more than 1,500 bytes"),
    ],
)
def test_a_failed_download_leaves_nothing(server, tmp_path, monkeypatch, path, content, message):
    monkeypatch.setattr(downloads, "_MOST_BYTES", 1500)
    server.contents = {} if content is None else {path: content}
    with pytest.raises(InputError, match=message):
        open_model(server.address + path)
    assert not list((tmp_path / "cache").iterdir())
    assert [each.name for each in tmp_path.iterdir()] == ["cache"]


def test_no_network(server, tmp_path):
    with pytest.raises(InputError) as error:
        open_model("http://127.0.0.1:9/albert_base_v2.tar.gz")
    assert "cannot be downloaded: [Errno 111] Connection refused. If this machine has no" in str(error.value)
    assert "download it elsewhere and name the file, or set ALBERT_TF_CACHE" in str(error.value)
    (tmp_path / "cache").rmdir()
    (tmp_path / "cache").write_text("a file in its place")
    with pytest.raises(InputError, match="cannot be downloaded: .*cache"):
        open_model(f"{server.address}/albert_base_v2.tar.gz")


@pytest.mark.parametrize(
    "steps", [["https:"], ["https:", "https:"], ["https:", "http:"], ["https:", "http:", "https:"]]
)
def test_https_stays_https(steps, server, archive, monkeypatch):
    """At each of the addresses that a server redirects to, not only at the last one."""
    addresses = [f"{scheme}//example.com/{number}/a.tar" for number, scheme in enumerate(steps)]
    redirects = dict(itertools.pairwise(addresses))

    def answer(_, request):
        headers, target = email.message.Message(), redirects.get(request.full_url)
        if target:
            headers["Location"] = target
        status = 302 if target else 200
        response = urllib.response.addinfourl(io.BytesIO(archive), headers, request.full_url, status)
        response.msg, response.length = "", len(archive)
        return response

    for handler in ("HTTPHandler.http_open", "HTTPSHandler.https_open"):
        monkeypatch.setattr(f"urllib.request.{handler}", answer)
    if "http:" not in steps:
        assert open_model(addresses[0]).config == CONFIG
        return
    with pytest.raises(InputError, match="redirects to an address without https: http://example.com/1/a.tar"):
        download(addresses[0])


def test_two_processes_download_the_same_archive(server, archive, monkeypatch):
    """The other process ends while this one is unpacking."""
    server.contents["/model.tar.gz"] = archive
    address, unpack = f"{server.address}/model.tar.gz", downloads.archives.unpack

    def after_the_other(*arguments):
        monkeypatch.setattr(downloads.archives, "unpack", unpack)
        assert download(address).is_dir()
        return unpack(*arguments)

    monkeypatch.setattr(downloads.archives, "unpack", after_the_other)
    assert_same_weights(open_model(address).weights, random_weights(CONFIG))
    assert len(server.served) == 2


def test_place_of_the_cache(monkeypatch):
    monkeypatch.delenv("ALBERT_TF_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/reader")
    assert cache_folder() == Path("/home/reader/.cache/albert_tf")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert cache_folder() == Path("/var/cache/albert_tf")
    monkeypatch.setenv("ALBERT_TF_CACHE", "~/models")
    assert cache_folder() == Path("/home/reader/models")


def kaggle_stub(monkeypatch, model_download) -> None:
    monkeypatch.setitem(sys.modules, "kagglehub", types.SimpleNamespace(model_download=model_download))


def test_kaggle(monkeypatch, tmp_path):
    write_tf1(random_stored(CONFIG), tmp_path)
    handles = []
    kaggle_stub(monkeypatch, lambda handle: handles.append(handle) or str(tmp_path))
    assert_same_weights(
        open_model("kaggle://google/albert/tensorFlow1/base/3").weights, random_weights(CONFIG)
    )
    assert handles == ["google/albert/tensorFlow1/base/3"]


def test_kaggle_fails(monkeypatch):
    def refuse(handle):
        raise KeyError(f"{handle} is unknown.")

    kaggle_stub(monkeypatch, refuse)
    with pytest.raises(InputError) as error:
        open_model("kaggle://google/albert/tensorFlow1/base")
    assert "base is unknown" in str(error.value)
    assert "get it from https://www.kaggle.com/models/google/albert elsewhere" in str(error.value)
    monkeypatch.setitem(sys.modules, "kagglehub", None)
    with pytest.raises(InputError, match=r"needs the package kagglehub.*pip install '.\[kaggle\]'"):
        open_model("kaggle://google/albert/tensorFlow1/base")
