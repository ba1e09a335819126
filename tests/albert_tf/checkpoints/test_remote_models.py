"""Models at addresses of object stores: what is copied, once, and what messages call it."""

import shutil
import tarfile
from pathlib import Path

import pytest

from albert_tf.checkpoints.huggingface import write_huggingface
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.remote_models import copied_model
from albert_tf.checkpoints.tf1 import write_tf1
from data_prep.errors import InputError
from data_prep.storage import objects
from tests.albert_tf.checkpoints.random_models import CONFIGS, assert_same_weights, random_stored

CONFIG = CONFIGS["one group"]


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def store(tmp_path) -> Path:
    """The folder of the addresses that begin with `address(store)`."""
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def address(path: Path) -> str:
    return f"file://{path}"


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(
            {"best.json": '{"step": 4}', "results.json": '{"best_seed": 1}'}.get(name, "{}")
        )


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def downloads(monkeypatch) -> list[str]:
    """The names of the files that were copied."""
    done = []
    download = objects.download

    def recorded(url, path):
        done.append(url.rpartition("/")[2])
        download(url, path)

    monkeypatch.setattr("data_prep.storage.cache.download", recorded)
    return done


RUN = [
    *("albert_config.json", "settings.json", "spm.model", "spm.normalization.json", "data_manifest.json"),
    *(
        f"checkpoints/ckpt-{step}.{part}"
        for step in (4, 12)
        for part in ("data-00000-of-00001", "index", "json")
    ),
]
OTHERS = ["metrics.jsonl", "tensorboard/events", ".lock/000001.json"]


@pytest.mark.parametrize(("best", "step"), [(["best.json"], 4), ([], 12)])
def test_of_a_run_its_facts_and_one_checkpoint(store, best, step):
    fill(store / "run", *RUN, *OTHERS, *best)
    with copied_model(address(store / "run")) as path:
        assert path.name == "run"
        expected = {name for name in RUN if "ckpt" not in name or f"ckpt-{step}." in name}
        assert files_in(path) == expected | set(best)


def test_a_checkpoint_of_a_run(store):
    fill(store / "run", *RUN, *OTHERS)
    for name in ("ckpt-4", "ckpt-4.index"):
        with copied_model(address(store / "run/checkpoints" / name)) as path:
            assert path.name == "ckpt-4"
            expected = {name for name in RUN if "ckpt-12." not in name}
            assert files_in(path.parents[1]) == expected


def test_of_a_fine_tuning_run_the_best_seed(store):
    facts = ["model.keras", "settings.json", "training.json", "spm.model"]
    needed = [f"seed_1/{name}" for name in facts]
    others = ["seed_1/dev_nbest_predictions.json", "seed_1/metrics.jsonl", "seed_1/checkpoints/ckpt-4.index"]
    fill(store / "run", "results.json", *needed, *others, *(f"seed_0/{name}" for name in facts))
    with copied_model(address(store / "run")) as path:
        assert files_in(path) == {"results.json", *needed}
    with copied_model(address(store / "run/seed_1")) as path:
        assert files_in(path) == set(facts)
    with copied_model(address(store / "run/seed_1/model.keras")) as path:
        assert path.name == "model.keras"
        assert files_in(path.parent) == set(facts)


@pytest.mark.parametrize("write", [write_tf1, write_huggingface])
def test_formats_are_read_with_everything_in_them(store, write, downloads):
    expected = random_stored(CONFIG)
    (store / "model").mkdir()
    write(expected, store / "model")
    found = open_model(address(store / "model"))
    assert_same_weights(found.weights, expected.weights)
    assert found.vocabulary.content == expected.vocabulary.content
    before = len(downloads)
    assert found.path == open_model(address(store / "model")).path
    assert len(downloads) == before == len(set(downloads))  # each once


def test_a_checkpoint_and_an_archive(store, downloads):
    expected = random_stored(CONFIG)
    (store / "model").mkdir()
    write_tf1(expected, store / "model")
    (index,) = (store / "model").glob("*.index")
    with tarfile.open(store / "model.tar.gz", "w:gz") as archive:
        archive.add(store / "model", "model")
    for source in (store / "model" / index.stem, store / "model.tar.gz", store / "model.tar.gz"):
        found = open_model(address(source))
        assert_same_weights(found.weights, expected.weights)
        assert found.vocabulary.content == expected.vocabulary.content
        assert found.path.with_name(f"{found.path.name}.index").exists()  # also after the archive was read
    assert downloads.count("model.tar.gz") == 1


def test_another_version_is_copied_and_the_one_in_use_stays(store, downloads):
    fill(store / "model", "config.json", "model.safetensors")
    with copied_model(address(store / "model")) as first:
        (store / "model/config.json").write_text('{"new": 1}')
        with copied_model(address(store / "model")) as second:
            assert (first / "config.json").read_text() == "{}"
            assert (second / "config.json").read_text() == '{"new": 1}'
    assert sorted(downloads) == ["config.json", "config.json", "model.safetensors"]


def test_files_that_disappear_while_they_are_copied(store, monkeypatch):
    """As old checkpoints of a run do."""
    fill(store / "run", *RUN)
    fetch = "albert_tf.checkpoints.remote_models.fetch"

    def disappears(url):
        for path in (store / "run/checkpoints").glob("ckpt-12.*"):
            path.unlink()
        return original(url)

    from albert_tf.checkpoints.remote_models import fetch as original

    monkeypatch.setattr(fetch, disappears)
    with copied_model(address(store / "run")) as path:
        assert files_in(path) == {name for name in RUN if "ckpt-12." not in name}


def test_messages_name_the_address(store):
    url = address(store)
    with pytest.raises(InputError, match=f"There is no model at {url}/nothing: "):
        open_model(f"{url}/nothing")
    fill(store / "run", *(name for name in RUN if name != "data_manifest.json"))
    for source in ("run", "run/checkpoints/ckpt-12"):
        with pytest.raises(InputError) as error:
            open_model(f"{url}/{source}")
        assert f"{url}/run/albert_config.json" in str(error.value)
        assert "cache" not in str(error.value)
    (store / "model.tar.gz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=f"^{url}/model.tar.gz is not a complete tar archive"):
        open_model(f"{url}/model.tar.gz")
    with pytest.raises(InputError, match="^ftpx://model cannot be used: Protocol not known: ftpx"):
        open_model("ftpx://model")


def test_two_processes_copy_at_the_same_time(store, monkeypatch, cache):
    """The slower one takes the copy of the faster one."""
    fill(store / "model", "config.json", "model.safetensors")
    link = "albert_tf.checkpoints.remote_models._link"
    with copied_model(address(store / "model")) as faster:
        copy = shutil.copytree(faster.parent, faster.parent.with_name("aside"))
    shutil.rmtree(faster.parent)

    from albert_tf.checkpoints.remote_models import _link as original

    def meanwhile(path, to):
        original(path, to)
        if copy.exists():
            copy.rename(faster.parent)

    monkeypatch.setattr(link, meanwhile)
    with copied_model(address(store / "model")) as slower:
        assert slower == faster
        assert files_in(slower) == {"config.json", "model.safetensors"}
    assert len(list(faster.parents[1].iterdir())) == 1
