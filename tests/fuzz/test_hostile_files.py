"""Files that would make Keras run code, open files or fetch addresses do nothing of the kind here."""

import contextlib
import json
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import pytest

from albert_tf.checkpoints.kerashub import write_kerashub
from albert_tf.runtime.finetuned import read_finetuned
from albert_tf.tasks.open_task import read_source
from data_prep.errors import InputError
from tests.fuzz.readers import BY_NAME, pretrained_model

# Objects that Keras builds from a file's description, each by another route. The path stands for what they open.
GADGETS = {
    "Lambda": lambda path: code_of(lambda x: Path(path).touch()),
    "TFSMLayer": lambda path: {"filepath": path, "call_endpoint": "serve", "call_training_endpoint": None},
    "JaxLayer": lambda path: {"call_fn": None, "init_fn": None, "params": {}, "state": {}},
    "StringLookup": lambda path: {"vocabulary": path},
    "TextVectorization": lambda path: {
        "vocabulary": path,
        "standardize": "lower",
        "split": "character",
        "ngrams": None,
    },
    "get_file": lambda path: path,
}


def code_of(function: Callable) -> dict[str, Any]:
    return keras.saving.serialize_keras_object(keras.layers.Lambda(function, name="code"))["config"]


def gadget(name: str, path: Path) -> dict[str, Any]:
    is_function = name == "get_file"
    return {
        "module": "keras.utils" if is_function else "keras.layers",
        "class_name": "function" if is_function else name,
        "config": name if is_function else GADGETS[name](str(path)),
        "registered_name": name if is_function else None,
    }


@pytest.fixture
def fired(monkeypatch) -> list[str]:
    """The gadgets that Keras has built or called."""
    events: list[str] = []

    def alarm(name: str) -> Callable:
        def fire(self, *args, **kwargs):
            events.append(name)
            raise RuntimeError(name)

        return fire

    for name in GADGETS:
        if name == "get_file":
            monkeypatch.setattr("keras.utils.get_file", alarm(name))
        elif name != "Lambda":
            monkeypatch.setattr(getattr(keras.layers, name), "__init__", alarm(name))
    monkeypatch.setattr("keras.src.utils.python_utils.func_load", alarm("Lambda"))
    return events


def places(description: Any) -> Iterator[tuple[str, ...]]:
    """The path of each object in a description, and of one more argument of each."""
    if isinstance(description, dict):
        yield ()
        yield ("more",)
        for name, part in description.items():
            for rest in places(part):
                yield (name, *rest)


def put(description: Any, place: tuple[str, ...], value: Any) -> Any:
    """A description with a value at a place."""
    if not place:
        return value
    name, *rest = place
    return {**description, name: put(description.get(name), tuple(rest), value)}


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("keras pretrainer", name) for name in GADGETS),
        ("fine-tuned run", "StringLookup"),
        ("fine-tuned run", "TFSMLayer"),
        ("quantized run", "StringLookup"),
    ],
)
def test_nothing_in_a_keras_file_is_built_or_called(kind, name, fired, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    BY_NAME["keras pretrainer" if kind == "keras pretrainer" else "fine-tuned run"].write(folder)
    read = read_source if kind == "keras pretrainer" else read_finetuned
    (file,) = folder.rglob("model.keras")
    if kind == "quantized run":
        model = keras.saving.load_model(file)
        with warnings.catch_warnings(action="ignore"):  # of the layers that stay as they are
            model.quantize("int8")
        model.save(file)
    with zipfile.ZipFile(file) as archive:
        files = {member: archive.read(member) for member in archive.namelist()}
    description = json.loads(files["config.json"])
    harmful = gadget(name, tmp_path / "canary")
    found = [place for place in places(description) if kind != "quantized run" or "quantized" in place]
    assert len(found) > 8
    for place in found:
        changed = json.dumps(put(description, place, harmful)).encode()
        with zipfile.ZipFile(file, "w") as archive:
            for member, content in {**files, "config.json": changed}.items():
                archive.writestr(member, content)
        with contextlib.suppress(InputError):
            read(folder)
        assert not fired, place
    assert not (tmp_path / "canary").exists()


@pytest.mark.very_slow
@pytest.mark.parametrize("name", GADGETS)
def test_nothing_in_a_kerashub_preset_is_built_or_called(name, fired, tmp_path):
    folder = tmp_path / "preset"
    folder.mkdir()
    write_kerashub(pretrained_model("ab"), folder)
    harmful = gadget(name, tmp_path / "canary")
    for file in sorted(folder.rglob("*.json")):
        content = file.read_text()
        for place in places(json.loads(content)):
            file.write_text(json.dumps(put(json.loads(content), place, harmful)))
            with contextlib.suppress(InputError):
                read_source(folder)
            assert not fired, (file, place)
        file.write_text(content)
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("name", ["Lambda", "TFSMLayer", "StringLookup", "TextVectorization"])
def test_keras_itself_builds_them(name, fired, tmp_path):
    """The gadgets are real: they fire where nothing checks the file."""
    with pytest.raises((RuntimeError, TypeError)):
        keras.saving.deserialize_keras_object(gadget(name, tmp_path / "canary"), safe_mode=False)
    assert fired == [name]
