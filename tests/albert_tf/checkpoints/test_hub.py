"""`hf://`, with a local server that answers like the Hub."""

import json
import shutil
import socket
from pathlib import Path

import pytest
from huggingface_hub.utils import filter_repo_objects

from albert_tf.checkpoints import downloads
from albert_tf.checkpoints.downloads import download
from albert_tf.checkpoints.huggingface import write_huggingface
from albert_tf.checkpoints.kerashub import write_kerashub
from albert_tf.checkpoints.tf1 import write_tf1
from albert_tf.conversion.convert import write_keras
from data_prep.errors import InputError
from data_prep.files import visible_files
from tests.albert_tf.checkpoints.hub import COMMIT, Hub
from tests.albert_tf.checkpoints.processes import run_python, serving
from tests.albert_tf.checkpoints.random_models import CONFIGS, VOCABULARY, random_stored

READ = """
    import json, sys
    from data_prep.errors import InputError
    from albert_tf.checkpoints.open_model import open_model
    try:
        stored = open_model(sys.argv[1])
    except InputError as error:
        print(json.dumps({"error": str(error)}))
    else:
        print(json.dumps({"missing": stored.missing, "layers": stored.config.num_hidden_layers,
                          "vocabulary": len(stored.vocabulary.content), "path": str(stored.path)}))
"""


@pytest.fixture
def hub(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    write_huggingface(random_stored(CONFIGS["one group"]), folder)
    (folder / "tf_model.h5").write_bytes(b"another format, which is not needed")
    server = Hub(folder)
    with serving(server):
        yield server


def read_in_process(hub: Hub, address: str) -> dict:
    environment = hub.environment(hub.folder.parent)
    return json.loads(run_python(READ, Path.cwd(), address, **environment).splitlines()[-1])


@pytest.mark.very_slow
def test_a_hub_that_never_answers(tmp_path, hub):
    """It is waited for once; what the cache holds is read."""
    impatient = READ.replace(
        "try:", "from albert_tf.checkpoints import downloads; downloads._TIMEOUT = 1\n    try:"
    )
    read_in_process(hub, "hf://owner/tiny")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = hub.environment(hub.folder.parent)
        environment["HF_ENDPOINT"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for address in ("hf://owner/tiny", "hf://owner/other"):
            answer = json.loads(run_python(impatient, Path.cwd(), address, **environment).splitlines()[-1])
            assert ("timed out" in answer["error"]) if "other" in address else answer["layers"]


@pytest.mark.parametrize(
    ("write", "weights"),
    [
        (write_huggingface, downloads._HUB_WEIGHTS),
        (write_kerashub, downloads._HUB_WEIGHTS),
        (write_keras, downloads._OTHER_HUB_FILES),
        (write_tf1, downloads._OTHER_HUB_FILES),
    ],
)
def test_every_file_of_a_format_is_downloaded(write, weights, tmp_path):
    """Of KerasHub, those of the task model too."""
    write(random_stored(CONFIGS["one group"]), tmp_path)
    files = [str(path.relative_to(tmp_path)) for path in visible_files(tmp_path)]
    assert list(filter_repo_objects(files, allow_patterns=downloads._HUB_FILES + weights)) == files


@pytest.mark.parametrize("vocabulary", ["30k-clean.model", "vocab_chinese.txt"])
def test_googles_names_of_vocabularies_are_downloaded(vocabulary):
    files = ["albert_config.json", vocabulary, "model.ckpt-best.index", "model.ckpt-best.data-00000-of-00001"]
    patterns = downloads._HUB_FILES + downloads._OTHER_HUB_FILES
    assert list(filter_repo_objects([*files, "30k-clean.vocab"], allow_patterns=patterns)) == files


@pytest.mark.very_slow
def test_a_keras_file_on_the_hub(hub):
    shutil.rmtree(hub.folder)
    hub.folder.mkdir()
    write_keras(random_stored(CONFIGS["one group"]), hub.folder)
    found = read_in_process(hub, "hf://owner/tiny")
    assert (found["layers"], found["vocabulary"]) == (4, len(VOCABULARY.content))


@pytest.mark.very_slow
def test_downloads_needed_files_once(hub):
    expected = {"missing": [], "layers": 4, "vocabulary": len(VOCABULARY.content)}
    assert expected.items() <= read_in_process(hub, "hf://owner/tiny").items()
    tokenizer = ["spiece.model", "tokenizer.json", "tokenizer_config.json"]
    needed = ["config.json", "model.safetensors", *tokenizer]
    assert sorted(hub.served) == needed
    assert expected.items() <= read_in_process(hub, f"hf://owner/tiny@{COMMIT}").items()
    assert sorted(hub.served) == needed  # the rest came from the cache
    hub.shutdown()
    hub.server_close()
    assert expected.items() <= read_in_process(hub, "hf://owner/tiny").items()


@pytest.mark.very_slow
def test_wrong_addresses(hub):
    error = read_in_process(hub, "hf://owner/tony")["error"]
    assert "hf://owner/tony cannot be downloaded" in error
    assert "run `hf download owner/tony --local-dir=tony` elsewhere" in error
    assert "is hf://OWNER/NAME. Received hf://tiny" in read_in_process(hub, "hf://tiny")["error"]
    shutil.rmtree(hub.folder)
    hub.folder.mkdir()
    assert (
        "hf://owner/tiny is not a model that can be read" in read_in_process(hub, "hf://owner/tiny")["error"]
    )


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
