"""`hf://`, with a local server that answers like the Hub."""

import hashlib
import http.server
import json
import shutil
from pathlib import Path

import pytest
from huggingface_hub.utils import filter_repo_objects

from albert_tf.pretrained import downloads
from albert_tf.pretrained.huggingface import write_huggingface
from albert_tf.pretrained.kerashub import write_kerashub
from albert_tf.pretrained.own import write_keras
from albert_tf.pretrained.tf1 import write_tf1
from data_prep.files import visible_files
from tests.albert_tf.pretrained.processes import run_python, serving
from tests.albert_tf.pretrained.random_models import CONFIGS, VOCABULARY, random_stored

COMMIT = "0123456789abcdef0123456789abcdef01234567"
READ = """
    import json, sys
    from data_prep.errors import InputError
    from albert_tf.pretrained.recognition import read
    try:
        stored = read(sys.argv[1])
    except InputError as error:
        print(json.dumps({"error": str(error)}))
    else:
        print(json.dumps({"missing": stored.missing, "layers": stored.config.num_hidden_layers,
                          "vocabulary": len(stored.vocabulary.content), "path": str(stored.path)}))
"""


class Hub(http.server.ThreadingHTTPServer):
    """One repository, owner/tiny, with the files of a folder."""

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), Answers)
        self.folder = folder
        self.served: list[str] = []


class Answers(http.server.BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self):
        path = self.path.split("?")[0]
        files = {file.name: file for file in self.server.folder.iterdir()}
        if path.startswith("/api/models/owner/tiny"):
            facts = {"id": "owner/tiny", "modelId": "owner/tiny", "sha": COMMIT, "tags": [], "downloads": 0}
            facts |= {"private": False, "siblings": [{"rfilename": name} for name in files]}
            tree = [
                {"type": "file", "path": name, "size": file.stat().st_size, "oid": etag(file)}
                for name, file in files.items()
            ]
            content = json.dumps(tree if "/tree/" in path else facts).encode()
            self.answer(200, {"Content-Type": "application/json", "Content-Length": len(content)}, content)
        elif path.startswith("/owner/tiny/resolve/") and path.split("/")[-1] in files:
            file = files[path.split("/")[-1]]
            content = file.read_bytes()
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{etag(file)}"', "Content-Length": len(content)}
            if self.command == "GET":
                self.server.served.append(file.name)
            self.answer(200, headers, content)
        else:
            self.answer(404, {"X-Error-Code": "RepoNotFound", "Content-Length": 0}, b"")

    do_HEAD = do_GET  # noqa: N815

    def answer(self, status: int, headers: dict, content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


def etag(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()


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
    folder = hub.folder.parent
    environment = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(folder / "home")}
    environment |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "NO_PROXY": "127.0.0.1", "HF_HUB_DISABLE_XET": "1"}
    return json.loads(run_python(READ, Path.cwd(), address, **environment).splitlines()[-1])


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


@pytest.mark.slow
def test_a_keras_file_on_the_hub(hub):
    shutil.rmtree(hub.folder)
    hub.folder.mkdir()
    write_keras(random_stored(CONFIGS["one group"]), hub.folder)
    found = read_in_process(hub, "hf://owner/tiny")
    assert (found["layers"], found["vocabulary"]) == (4, len(VOCABULARY.content))


@pytest.mark.slow
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


@pytest.mark.slow
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
