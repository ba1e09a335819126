"""Models by name: those of the package, and Google's."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import albert_tf
from albert_cli import cli
from albert_tf.checkpoints import sources
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.sources import named_models
from albert_tf.checkpoints.tf1 import write_tf1
from albert_tf.conversion.convert import convert
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.model.weights import weights_of
from albert_tf.parameters import count_parameters
from albert_tf.runtime.pretrained import load_pretrained
from albert_tf.tasks.texts.model import TextClassifier
from albert_tf.training.initial_weights import load_weights_into
from data_prep.errors import InputError
from tests.albert_tf.checkpoints.random_models import (
    CONFIGS,
    VOCABULARY,
    assert_same_weights,
    random_stored,
    random_weights,
)

CONFIG = CONFIGS["one group"]
SIZES = ("base", "large", "xlarge", "xxlarge")
GOOGLE = [f"albert_{size}_{version}" for version in ("v1", "v2") for size in SIZES]


@pytest.fixture(autouse=True)
def empty_caches(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(sources, "SHIPPED_FOLDER", tmp_path / "models")


@pytest.fixture
def shipped(tmp_path):
    """A package with the model `tiny_en`, as `albert convert` writes it."""
    (tmp_path / "source").mkdir()
    write_tf1(random_stored(CONFIG), tmp_path / "source")
    (tmp_path / "models").mkdir()
    convert(
        tmp_path / "source", tmp_path / "models" / "tiny_en", "huggingface", dtype="bfloat16", verify=False
    )
    return tmp_path / "models" / "tiny_en"


@pytest.fixture
def downloaded(monkeypatch):
    """The addresses that are downloaded."""
    addresses = []

    def refuse(address: str) -> Path:
        addresses.append(address)
        raise InputError(f"{address} cannot be downloaded.")

    monkeypatch.setattr(sources, "download", refuse)
    return addresses


def in_bfloat16() -> dict[str, np.ndarray]:
    weights = random_weights(CONFIG)
    return {name: array.astype(ml_dtypes.bfloat16).astype("float32") for name, array in weights.items()}


@pytest.mark.slow
def test_a_model_of_the_package(shipped, downloaded):
    loaded = albert_tf.load_pretrained("tiny_en")
    assert_same_weights(weights_of(loaded.model), in_bfloat16())
    assert (loaded.missing, loaded.vocabulary, loaded.config) == ((), VOCABULARY, CONFIG)
    assert not downloaded
    classifier = TextClassifier.from_pretrained("tiny_en", labels=("bad", "good"), max_seq_length=8)
    assert classifier.predict(["ab"], verbose=0).shape == (1, 2)
    model = AlbertPretrainer(CONFIG, seed=1)
    assert load_weights_into(model, "tiny_en") == ()
    assert_same_weights(weights_of(model), in_bfloat16())


def test_damage_is_reported_under_the_name(shipped):
    (shipped / "model.safetensors").unlink()
    with pytest.raises(InputError, match="tiny_en") as error:
        load_pretrained("tiny_en")
    assert str(shipped.parent) not in str(error.value)


def test_no_model_without_its_folder(tmp_path):
    (tmp_path / "models" / "notes").mkdir(parents=True)
    assert [model.name for model in named_models()] == GOOGLE
    with pytest.raises(InputError, match="There is no checkpoint at tiny_en, and no model has this name"):
        open_model("tiny_en")


def test_names_of_google(downloaded):
    for name in GOOGLE:
        with pytest.raises(InputError):
            open_model(name)
    assert downloaded[0] == "hf://albert/albert-base-v1"
    assert downloaded[-1] == "hf://albert/albert-xxlarge-v2"
    assert len(set(downloaded)) == len(GOOGLE) == 8


def test_the_list(shipped, tmp_path):
    snapshot = tmp_path / "hub" / "models--albert--albert-large-v2" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"")
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0123")
    first, *others = named_models()
    size = sum(path.stat().st_size for path in shipped.iterdir())
    assert (first.name, first.source, first.place) == ("tiny_en", shipped, "in the package")
    assert (first.parameters, first.size) == (count_parameters(CONFIG).pretrainer, size)
    assert [model.name for model in others] == GOOGLE
    assert {model.name for model in others if model.place == "in the cache"} == {"albert_large_v2"}
    base = next(model for model in others if model.name == "albert_base_v2")
    assert (base.parameters, base.size) == (11_813_810, 47_255_240)


def test_an_existing_path_wins(shipped, downloaded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = random_stored(CONFIGS["two groups"])
    for name in ("tiny_en", "albert_base_v2"):
        Path(name).mkdir()
        write_tf1(other, Path(name))
        assert_same_weights(open_model(name).weights, other.weights)
    for file in Path("tiny_en").glob("model.ckpt-best*"):  # a prefix of files counts as a path
        file.rename(tmp_path / file.name.replace("model.ckpt-best", "albert_large_v2"))
    Path("tiny_en", "albert_config.json").rename("albert_config.json")
    assert_same_weights(open_model("albert_large_v2").weights, other.weights)
    assert not downloaded


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("albert-base-v2", "(the nearest is albert_base_v2)"),
        ("albert_xxlage_v1", "(the nearest is albert_xxlarge_v1)"),
        ("tinyen", "(the nearest is tiny_en)"),
        ("nowhere", "no model has this name; `albert models` lists the names."),
        (
            "albert_base_v2.tar.gz",
            "There is no checkpoint at albert_base_v2.tar.gz. A model is a pretraining or fine-tuning run",
        ),
        (
            "runs/albert_base_v2",
            "There is no checkpoint at runs/albert_base_v2. A model is a pretraining or fine-tuning run",
        ),
        (
            "albert/albert-base-v2",
            "There is no checkpoint at albert/albert-base-v2. If it is a repository of the Hugging Face Hub, "
            "write hf://albert/albert-base-v2. A model is a",
        ),
    ],
)
def test_names_of_no_model(shipped, downloaded, tmp_path, monkeypatch, source, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(InputError) as error:
        open_model(source)
    assert message in str(error.value)
    assert not downloaded


def test_a_failed_download_names_what_the_package_holds(shipped, downloaded):
    with pytest.raises(InputError, match="cannot be downloaded. No download is needed for tiny_en."):
        open_model("albert_base_v2")


def test_the_command(shipped, capsys):
    assert cli.main(["models"]) == 0
    header, first, *others = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "parameters", "size", "files"]
    assert first.split()[:2] == ["tiny_en", f"{count_parameters(CONFIG).pretrainer:,}"]
    assert first.endswith("in the package")
    assert others[-1].split() == ["albert_xxlarge_v2", "223,158,450", "892.6", "MB", "to", "download"]
    assert len(others) == len(GOOGLE)
