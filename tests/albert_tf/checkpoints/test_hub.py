"""`hf://`, with a local server that answers like the Hub."""

import json
import shutil
import socket
from types import SimpleNamespace

import pytest
from huggingface_hub.utils import filter_repo_objects

from albert_tf.checkpoints import downloads
from albert_tf.checkpoints.downloads import download
from albert_tf.checkpoints.huggingface import write_huggingface
from albert_tf.checkpoints.open_model import open_model
from data_prep.errors import InputError
from tests.albert_tf.checkpoints.hub import COMMIT, Hub
from tests.albert_tf.checkpoints.processes import serving
from tests.albert_tf.checkpoints.random_models import CONFIGS, VOCABULARY, assert_same_weights, random_stored


@pytest.fixture
def hub(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    write_huggingface(random_stored(CONFIGS["one group"]), folder)
    (folder / "tf_model.h5").write_bytes(b"another format, which is not needed")
    server = Hub(folder)
    with serving(server):
        yield server


ADDRESS = "hf://owner/tiny"


def test_downloads_needed_files_once(hub, tmp_path):
    needed = sorted({path.name for path in hub.folder.iterdir()} - {"tf_model.h5"})
    expected = random_stored(CONFIGS["one group"])
    with hub.in_place_of_the_hub(tmp_path / "cache"):
        for address in (ADDRESS, f"{ADDRESS}@{COMMIT}"):
            stored = open_model(address)
            assert (stored.missing, stored.vocabulary) == ((), VOCABULARY)
            assert_same_weights(stored.weights, expected.weights)
            assert sorted(hub.served) == needed  # the second time from the cache
        hub.shutdown()
        hub.server_close()
        assert_same_weights(open_model(ADDRESS).weights, expected.weights)


def test_a_hub_that_never_answers(hub, tmp_path, monkeypatch):
    """It is waited for once; what the cache holds is read."""
    with hub.in_place_of_the_hub(tmp_path / "cache"):
        open_model(ADDRESS)
    monkeypatch.setattr(downloads, "_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = SimpleNamespace(server_port=silent.getsockname()[1])
        with Hub.in_place_of_the_hub(place, tmp_path / "cache"):
            assert open_model(ADDRESS).missing == ()
            with pytest.raises(InputError, match="timed out"):
                open_model("hf://owner/other")


def test_wrong_addresses(hub, tmp_path):
    with hub.in_place_of_the_hub(tmp_path / "cache"):
        with pytest.raises(InputError, match="hf://owner/tony cannot be downloaded.*--local-dir=tony"):
            open_model("hf://owner/tony")
        with pytest.raises(InputError, match="is hf://OWNER/NAME. Received hf://tiny"):
            open_model("hf://tiny")
        shutil.rmtree(hub.folder)
        hub.folder.mkdir()
        with pytest.raises(InputError, match="hf://owner/tiny is not a model that can be read"):
            open_model(ADDRESS)


@pytest.mark.parametrize("vocabulary", ["30k-clean.model", "vocab_chinese.txt"])
def test_googles_names_of_vocabularies_are_downloaded(vocabulary):
    files = ["albert_config.json", vocabulary, "model.ckpt-best.index", "model.ckpt-best.data-00000-of-00001"]
    patterns = downloads._HUB_FILES + downloads._OTHER_HUB_FILES
    assert list(filter_repo_objects([*files, "30k-clean.vocab"], allow_patterns=patterns)) == files


def listing(*names: str) -> bytes:
    return json.dumps(
        {"id": "owner/tiny", "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
    ).encode()


@pytest.mark.parametrize(
    "facts",
    [
        b"<html>Please log in to the network of this hotel.</html>",
        b"",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"id": "owner/tiny", "siblings": []}',
        listing("config.json").replace(b"[{", b"[7, {"),
        listing("config.json").replace(COMMIT.encode(), b"../../x"),
        *map(listing, ("../config.json", "/etc/x.json", "a/../../x.json", "..", "a\0.json", "a\\..\\x.json")),
    ],
)
def test_answers_of_others_than_the_hub(facts, hub, tmp_path):
    hub.facts = facts
    with (
        hub.in_place_of_the_hub(tmp_path / "cache"),
        pytest.raises(
            InputError, match="^hf://owner/tiny cannot be downloaded: the Hub's answer from http://"
        ),
    ):
        download("hf://owner/tiny")
    assert not hub.served
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "tree",
    [b"<html>", b"{}", b"[7]", b"[" * 100_000, b'[{"type": "file", "path": 7, "size": 1, "oid": "a"}]'],
)
def test_answers_of_others_about_the_files(tree, hub, tmp_path):
    """huggingface_hub asks for them."""
    hub.tree = tree
    with hub.in_place_of_the_hub(tmp_path / "cache"):
        try:
            download("hf://owner/tiny")
        except InputError as error:
            assert str(error).startswith("hf://owner/tiny cannot be downloaded: ")


def test_only_files_that_were_listed_are_downloaded(hub, tmp_path):
    """A second answer may have other names."""
    names = ["config.json", "../x.json", "/x.json", "a[1].json"]
    hub.facts = listing("config.json", "dots..json", "a[1].json")
    hub.tree = json.dumps(
        [{"type": "file", "path": name, "size": 1, "oid": COMMIT} for name in names]
    ).encode()
    (hub.folder / "a[1].json").write_text("{}")
    with hub.in_place_of_the_hub(tmp_path / "cache"):
        folder = download("hf://owner/tiny")
    assert sorted(path.name for path in folder.iterdir()) == ["a[1].json", "config.json"]
