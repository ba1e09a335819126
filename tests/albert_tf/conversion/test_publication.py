"""`albert publish`, with a local server that takes uploads as the Hub does."""

import base64
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from albert_tf.checkpoints.tf1 import write_tf1
from albert_tf.conversion.convert import convert
from albert_tf.conversion.publication import publish as publish_folder
from data_prep.errors import InputError
from tests.albert_tf.checkpoints.processes import run_python, serving
from tests.albert_tf.checkpoints.random_models import CONFIGS, random_stored

PUBLISH = """
    import json, sys
    from albert_cli.cli import main
    for arguments in json.loads(sys.argv[1]):
        print("status", main(["publish", *arguments]))
"""


class Hub(http.server.ThreadingHTTPServer):
    """Repositories that need a token: name -> file -> content."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answers)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.large: dict[str, bytes] = {}  # by SHA-256
        self.has_upload = threading.Event()
        self.takes_uploads = threading.Event()
        self.takes_uploads.set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(http.server.BaseHTTPRequestHandler):
    server: Hub

    def do_POST(self):
        hub, parts = self.server, self.path.split("?")[0].strip("/").split("/")
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/api/validate-yaml":
            bad = "no license" in json.loads(content)["content"]
            errors = [{"message": '"license" must be one of a list'}] if bad else []
            self.answer(400 if bad else 200, {"errors": errors, "warnings": []})
        elif self.headers.get("Authorization") != "Bearer secret":
            self.answer(401, {"error": "Invalid username or password."})
        elif self.path == "/api/repos/create":
            request = json.loads(content)
            name = (
                f"{request['organization']}/{request['name']}"
                if "organization" in request
                else request["name"]
            )
            known = name in hub.repositories
            hub.repositories.setdefault(name, {})
            hub.private.setdefault(name, request.get("private") or request.get("visibility") == "private")
            self.answer(409 if known else 200, {"url": f"{hub.address}/{name}", "name": name})
        elif "preupload" in parts:
            files = json.loads(content)["files"]
            modes = ["lfs" if file["path"].endswith(".safetensors") else "regular" for file in files]
            names = [file["path"] for file in files]
            modes_of = [
                {"path": name, "uploadMode": mode, "shouldIgnore": False}
                for name, mode in zip(names, modes, strict=True)
            ]
            self.answer(200, {"files": modes_of})
        elif parts[-1] == "batch":
            objects = json.loads(content)["objects"]
            upload = [
                {**each, "actions": {"upload": {"href": f"{hub.address}/large/{each['oid']}"}}}
                for each in objects
            ]
            self.answer(200, {"transfer": "basic", "objects": upload})
        elif "commit" in parts:
            for line in content.decode().splitlines():
                change = json.loads(line)
                value = change["value"]
                if change["key"] == "file":
                    hub.repositories["/".join(parts[2:4])][value["path"]] = base64.b64decode(value["content"])
                elif change["key"] == "lfsFile":
                    hub.repositories["/".join(parts[2:4])][value["path"]] = hub.large[value["oid"]]
            url = f"{hub.address}/{'/'.join(parts[2:4])}/commit/1"
            self.answer(200, {"commitUrl": url, "commitOid": "1", "success": True})

    def do_PUT(self):
        self.server.has_upload.set()
        self.server.takes_uploads.wait(60)
        self.server.large[self.path.split("/")[-1]] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, {})

    def do_GET(self):
        self.answer(401, {"error": "Invalid username or password."})

    def answer(self, status: int, content: dict) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    server = Hub()
    with serving(server):
        yield server


@pytest.fixture
def folder(tmp_path):
    """A Hugging Face directory that `albert convert` wrote."""
    (tmp_path / "tf1").mkdir()
    write_tf1(random_stored(CONFIGS["one group"]), tmp_path / "tf1")
    convert(tmp_path / "tf1", tmp_path / "hf", "huggingface", verify=False)
    return tmp_path / "hf"


def environment_of(hub: Hub, home: Path, token: str | None = "secret") -> dict[str, str]:
    return {
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_TOKEN": token or "",
        "NO_PROXY": "127.0.0.1",
    }


def publish(hub: Hub, home: Path, *commands: list, token: str | None = "secret") -> list[str]:
    environment = environment_of(hub, home, token)
    arguments = json.dumps([[str(part) for part in command] for command in commands])
    return run_python(PUBLISH, Path.cwd(), arguments, **environment).splitlines()


@pytest.mark.very_slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_during_an_upload(number, hub, folder, tmp_path):
    """Nothing is published; the same command again publishes everything."""
    command = [folder, "hf://me/tiny", "--license=mit"]
    program = "import sys; from albert_cli.cli import main; sys.exit(main(['publish', *sys.argv[1:]]))"
    hub.takes_uploads.clear()
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, command)],
        env={**os.environ, **environment_of(hub, tmp_path / "home")},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert hub.has_upload.wait(120)
        process.send_signal(number)
        time.sleep(0.5)
        hub.takes_uploads.set()
        error = process.communicate(timeout=60)[1]
    if number == signal.SIGTERM:
        assert (process.returncode, error.splitlines()[-1]) == (143, "albert: received SIGTERM")
    assert "Traceback" not in error, error
    assert hub.repositories == {"me/tiny": {}}
    assert publish(hub, tmp_path / "home", command)[-1] == "status 0"
    names = {path.name for path in folder.iterdir()}
    assert names <= set(hub.repositories["me/tiny"])


@pytest.mark.very_slow
def test_publishing(hub, folder, tmp_path):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / ".cache").write_text("not to be published")
    flags = ["--license=apache-2.0", "--language=de,en", "--tags=news", "--private"]
    lines = publish(
        hub,
        tmp_path / "home",
        [folder, "hf://me/tiny", *flags],
        [folder, "hf://me/tiny", "--license=mit"],  # again
        [folder, "hf://me/other", "--license=no license"],
        [tmp_path / "tf1", "hf://me/tiny"],
        [folder, "hf://tiny"],
        [folder, "hf://me/tiny@main"],
    )
    assert [line for line in lines if line.startswith("status")] == ["status 0"] * 2 + ["status 2"] * 4
    assert lines[0] == f"{hub.address}/me/tiny/commit/1"
    published = hub.repositories["me/tiny"]
    assert hub.private == {"me/tiny": True, "me/other": False}
    assert {**published, "README.md": before["README.md"]} == before
    card = published["README.md"].decode()
    metadata, text = card.removeprefix("---\n").split("\n---\n", 1)
    assert text.strip() == before["README.md"].decode().split("\n---\n", 1)[1].strip()
    assert {"license: mit", "library_name: transformers", "pipeline_tag: fill-mask"} <= set(
        metadata.splitlines()
    )
    assert not hub.repositories["me/other"]


@pytest.mark.parametrize("name", ["vocab.txt", "notes.txt", "assets", "README.md", "sub/vocab.txt"])
def test_links_are_not_followed(name, tmp_path):
    (tmp_path / "model" / "sub").mkdir(parents=True)
    (tmp_path / "model" / "README.md").write_text("Written by `albert convert`.")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "README.md").write_text("Written by `albert convert`.")
    (tmp_path / "model" / name).unlink(missing_ok=True)
    target = "secret" if name == "assets" else "secret/README.md"
    (tmp_path / "model" / name).symlink_to(tmp_path / target)
    with pytest.raises(InputError, match=f"must hold regular files. Received .*{name}, a link"):
        publish_folder(tmp_path / "model", "hf://me/tiny")


def test_only_files_of_models_are_uploaded_and_listed_first(tmp_path, monkeypatch):
    events: list = []
    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", lambda *_, **__: events.append("sent"))

    def create_commit(self, repository, operations, **_):
        events.append(sorted(operation.path_in_repo for operation in operations))
        return types.SimpleNamespace(commit_url="url")

    monkeypatch.setattr("huggingface_hub.HfApi.create_commit", create_commit)
    (tmp_path / "README.md").write_text("---\ntags: []\n---\nWritten by `albert convert`.")
    for name in ("model.safetensors", "vocab.txt", "id_rsa", "notes.txt", "run.py", ".env"):
        (tmp_path / name).write_text("12345")
    publish_folder(tmp_path, "hf://me/tiny", show=events.append)
    listed, (sent, uploaded) = events[:-2], events[-2:]
    assert (sent, uploaded) == ("sent", ["README.md", "model.safetensors", "vocab.txt"])
    assert [line.split() for line in listed[:2]] == [
        ["5", "bytes", "model.safetensors"],
        ["5", "bytes", "vocab.txt"],
    ]
    assert sorted(line.split()[-1] for line in listed[3:]) == ["id_rsa", "notes.txt", "run.py"]


@pytest.mark.parametrize("error", [TypeError("list"), KeyError("url"), RecursionError()])
def test_what_answers_in_place_of_the_hub(error, tmp_path, monkeypatch):
    def create_repo(*_, **__):
        raise error

    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", create_repo)
    (tmp_path / "README.md").write_text("Written by `albert convert`.")
    with pytest.raises(
        InputError, match=r"cannot be published at hf://me/tiny: .*\. Publish it from a machine"
    ):
        publish_folder(tmp_path, "hf://me/tiny")


@pytest.mark.parametrize("metadata", ["tags: [albert", "- albert", "tags: 5"])
def test_invalid_metadata(metadata, tmp_path):
    (tmp_path / "README.md").write_text(f"---\n{metadata}\n---\nWritten by `albert convert`.")
    with pytest.raises(InputError, match="README.md must be names and values in YAML. They are not: "):
        publish_folder(tmp_path, "hf://me/tiny")


@pytest.mark.very_slow
def test_a_token_is_needed(hub, folder, tmp_path):
    assert publish(hub, tmp_path / "home", [folder, "hf://me/tiny"], token=None) == ["status 2"]
    assert not hub.repositories


def test_the_folder_must_exist(tmp_path):
    with pytest.raises(InputError, match="A folder to publish must exist. Received .*none"):
        publish_folder(tmp_path / "none", "hf://me/tiny")


@pytest.mark.very_slow
def test_a_hub_that_cannot_be_reached_needs_no_token(hub, folder, tmp_path):
    program = "import sys; from albert_cli.cli import main; sys.exit(main(['publish', *sys.argv[1:]]))"
    result = subprocess.run(
        [sys.executable, "-c", program, str(folder), "hf://me/tiny"],
        env={**os.environ, **environment_of(hub, tmp_path / "home"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "Publish it from a machine that reaches the Hub." in result.stderr
    assert "a token" not in result.stderr
