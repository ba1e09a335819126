"""`albert publish`: what is sent to the Hub, and what is said if the Hub refuses."""

import types
from pathlib import Path

import pytest
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

from albert_cli import cli
from albert_tf.checkpoints.tf1 import write_tf1
from albert_tf.conversion.convert import convert
from albert_tf.conversion.publication import publish
from data_prep.errors import InputError
from tests.albert_tf.checkpoints.random_models import CONFIGS, random_stored

WRITTEN = "Written by `albert convert`."


@pytest.fixture
def hub(monkeypatch):
    """Repositories, name -> file -> content, and whether each is private; it takes what HfApi sends."""
    found = types.SimpleNamespace(repositories={}, private={})

    def create_repo(self, repository, *, private, exist_ok):
        assert exist_ok
        found.repositories.setdefault(repository, {})
        found.private.setdefault(repository, private)

    def create_commit(self, repository, operations, *, commit_message):
        for operation in operations:
            with operation.as_file() as file:
                found.repositories[repository][operation.path_in_repo] = file.read()
        return types.SimpleNamespace(commit_url=f"https://hub/{repository}/commit/1")

    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", create_repo)
    monkeypatch.setattr("huggingface_hub.HfApi.create_commit", create_commit)
    return found


def test_publishing(hub, tmp_path, capfd):
    """A Hugging Face directory that `albert convert` wrote, twice; other folders and addresses are refused."""
    (tmp_path / "tf1").mkdir()
    write_tf1(random_stored(CONFIGS["one group"]), tmp_path / "tf1")
    folder = tmp_path / "hf"
    convert(tmp_path / "tf1", folder, "huggingface", verify=False)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / ".cache").write_text("not to be published")
    flags = ["--license=apache-2.0", "--language=de,en", "--tags=news", "--private"]
    assert cli.main(["publish", str(folder), "hf://me/tiny", *flags]) == 0
    assert capfd.readouterr().out == "https://hub/me/tiny/commit/1\n"
    first = hub.repositories["me/tiny"]["README.md"].decode().split("\n---\n", 1)[0]
    assert {"license: apache-2.0", "- de", "- en", "- news"} <= set(first.splitlines())
    assert cli.main(["publish", str(folder), "hf://me/tiny", "--license=mit"]) == 0  # again
    for words in ([tmp_path / "tf1", "hf://me/tiny"], [folder, "hf://tiny"], [folder, "hf://me/tiny@main"]):
        assert cli.main(["publish", *map(str, words)]) == 2
    assert hub.private == {"me/tiny": True}
    published = hub.repositories["me/tiny"]
    assert {**published, "README.md": before["README.md"]} == before
    metadata, text = published["README.md"].decode().removeprefix("---\n").split("\n---\n", 1)
    assert text.strip() == before["README.md"].decode().split("\n---\n", 1)[1].strip()
    expected = {"license: mit", "library_name: transformers", "pipeline_tag: fill-mask"}
    assert expected <= set(metadata.splitlines())


@pytest.mark.parametrize("name", ["vocab.txt", "notes.txt", "assets", "README.md", "sub/vocab.txt"])
def test_links_are_not_followed(name, tmp_path):
    (tmp_path / "model" / "sub").mkdir(parents=True)
    (tmp_path / "model" / "README.md").write_text(WRITTEN)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "README.md").write_text(WRITTEN)
    (tmp_path / "model" / name).unlink(missing_ok=True)
    target = "secret" if name == "assets" else "secret/README.md"
    (tmp_path / "model" / name).symlink_to(tmp_path / target)
    with pytest.raises(InputError, match=f"must hold regular files. Received .*{name}, a link"):
        publish(tmp_path / "model", "hf://me/tiny")


def test_only_files_of_models_are_uploaded_and_listed_first(hub, tmp_path):
    (tmp_path / "README.md").write_text(f"---\ntags: []\n---\n{WRITTEN}")
    for name in ("model.safetensors", "vocab.txt", "id_rsa", "notes.txt", "run.py", ".env"):
        (tmp_path / name).write_text("12345")
    listed: list[str] = []

    def show(line: str) -> None:
        assert not hub.repositories, "the list comes first"
        listed.append(line)

    publish(tmp_path, "hf://me/tiny", show=show)
    assert sorted(hub.repositories["me/tiny"]) == ["README.md", "model.safetensors", "vocab.txt"]
    sizes = [line.split() for line in listed[:2]]
    assert sizes == [["5", "bytes", "model.safetensors"], ["5", "bytes", "vocab.txt"]]
    assert sorted(line.split()[-1] for line in listed[3:]) == ["id_rsa", "notes.txt", "run.py"]


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        *((error, "from a machine that") for error in (TypeError("list"), KeyError("url"), RecursionError())),
        (OSError("offline"), "from a machine that reaches the Hub"),
        (LocalTokenNotFoundError("no token"), "needs a token that may write there"),
        (HfHubHTTPError("401", response=types.SimpleNamespace(headers={}, request=None)), "needs a token"),
        (ValueError('"license" must be one of a list'), '"license" must be one of a list'),
    ],
)
def test_what_the_hub_or_another_in_its_place_answers(error, remedy, hub, tmp_path, monkeypatch):
    def create_commit(*_, **__):
        raise error

    monkeypatch.setattr("huggingface_hub.HfApi.create_commit", create_commit)
    (tmp_path / "README.md").write_text(WRITTEN)
    with pytest.raises(InputError, match=f"cannot be published at hf://me/tiny: .*{remedy}"):
        publish(tmp_path, "hf://me/tiny")


@pytest.mark.parametrize("metadata", ["tags: [albert", "- albert", "tags: 5"])
def test_invalid_metadata(metadata, tmp_path):
    (tmp_path / "README.md").write_text(f"---\n{metadata}\n---\n{WRITTEN}")
    with pytest.raises(InputError, match="README.md must be names and values in YAML. They are not: "):
        publish(tmp_path, "hf://me/tiny")


def test_the_folder_must_exist(tmp_path: Path):
    with pytest.raises(InputError, match="A folder to publish must exist. Received .*none"):
        publish(tmp_path / "none", "hf://me/tiny")
