"""Keras loads the files of this package's models after `import albert_tf`."""

import subprocess
import sys
from pathlib import Path

import keras
import pytest

from albert_tf import AdamW, AlbertPretrainer, TextClassifier, WarmupPolynomialDecay
from albert_tf.model.encoder import AlbertEncoder
from tests.albert_tf.tasks.task_models import CASES, CONFIG

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(model_file, tmp_path_factory) -> list[Path]:
    """A compiled task model with a vocabulary, a pretrainer and an encoder."""
    folder = tmp_path_factory.mktemp("files")
    classifier = CASES["text"].build(model_file)
    classifier.compile(AdamW(WarmupPolynomialDecay(1e-3, 10, 2)))
    pretrainer, encoder = AlbertPretrainer(CONFIG), AlbertEncoder(CONFIG)
    for name, model in (("task", classifier), ("pretrainer", pretrainer), ("encoder", encoder)):
        model.save(folder / f"{name}.keras")
    return sorted(folder.iterdir())


@pytest.mark.very_slow
@pytest.mark.parametrize("modules", ["keras, albert_tf", "albert_tf, tensorflow, keras"])
def test_files_are_loaded_after_the_import_alone(files, modules):
    program = f"""
import {modules}
print([type(keras.saving.load_model(path)).__name__ for path in {[str(path) for path in files]}])
assert keras.saving.get_registered_object("albert_tf>AdamW") is albert_tf.AdamW
"""
    found = run(program)
    assert (found.stdout, found.returncode) == (
        "['AlbertEncoder', 'AlbertPretrainer', 'TextClassifier']\n",
        0,
    )


def test_keras_is_not_imported_early():
    assert (
        run("import albert_tf, sys; sys.exit(bool({'keras', 'tensorflow'} & set(sys.modules)))").returncode
        == 0
    )


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_no_message_prints_a_vocabulary(files, model_file):
    config = CASES["text"].build(model_file).get_config()
    content = config["preprocessor"]["config"]["content"]
    assert content not in str(config)
    assert TextClassifier.from_config(config).get_config() == config
    serialized = keras.saving.serialize_keras_object(CASES["text"].build(model_file))
    serialized["config"]["encoder"]["frozen"] = 5
    serialized["config"]["preprocessor"]["config"]["content"] = str(content)
    with pytest.raises(TypeError, match="could not be deserialized") as error:
        keras.saving.deserialize_keras_object(serialized)
    assert content not in str(error.value)
