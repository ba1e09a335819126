"""A model with its vocabulary, in a format that only our readers know."""

import functools
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import tensorflow as tf

from albert_tf.checkpoints.stored import StoredModel
from albert_tf.checkpoints.tf1 import write_tf1
from albert_tf.config import AlbertConfig
from data_prep.tokenizers.vocabulary import Vocabulary
from export.write import export_for_runtime, export_model
from tests.albert_tf.checkpoints.random_models import random_weights
from tests.data_prep.wordpieces import vocab_file

__all__ = ["vocab_file"]

CONFIG = AlbertConfig(
    vocab_size=104,  # more than the vocabulary's 100 pieces
    embedding_size=10,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=3,
    intermediate_size=36,
    max_position_embeddings=16,
)


def write_model(folder: Path, config: AlbertConfig, weights: dict | None = None, vocabulary=None) -> Path:
    """A TF1 checkpoint with these weights, or random ones."""
    folder.mkdir()
    stored = StoredModel("run", Path("nowhere"), config, weights or random_weights(config), vocabulary)
    write_tf1(stored, folder)
    return folder


def write_source(folder: Path, *without: str, vocabulary: Vocabulary | None = None) -> Path:
    """The model of these tests; `without` names parts to leave out."""
    weights = random_weights(CONFIG, *without)
    if "masked_lm" not in without:
        weights["masked_lm/output_bias"][100:] += 3.0  # some of the best predictions are ids without a piece
    return write_model(folder, CONFIG, weights, vocabulary)


@pytest.fixture(scope="session")
def source(model_file, tmp_path_factory) -> Path:
    """A complete model with its vocabulary."""
    vocabulary = Vocabulary("sentencepiece", model_file.read_bytes())
    return write_source(tmp_path_factory.mktemp("source") / "tf1", vocabulary=vocabulary)


@pytest.fixture(scope="session")
def exported(source, tmp_path_factory):
    """A function that exports `source` as a SavedModel, once for all tests that ask for the same; its folder."""

    @functools.cache
    def export(kind: str, dtype: str = "float32", **options) -> Path:
        folder = tmp_path_factory.mktemp(kind) / "saved"
        assert export_model(source, folder, kind, dtype, **options).notes == ()
        return folder

    return export


@pytest.fixture(scope="session")
def portable(source, tmp_path_factory):
    """The same for files of other runtimes."""

    @functools.cache
    def export(runtime: str) -> Path:
        folder = tmp_path_factory.mktemp(runtime) / "saved"
        export_for_runtime(source, folder, runtime)
        return folder

    return export


_ALONE = """
    import importlib.abc, sys

    class Refuse(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in ("albert_tf", "data_prep", "export", "keras", "sentencepiece"):
                raise ModuleNotFoundError(name)

    import tensorflow as tf
    import tensorflow_text
    sys.meta_path.insert(0, Refuse())
    assert "albert_tf" not in sys.modules
"""


def run_alone(code: str, folder: Path) -> str:
    """Runs Python in `folder`, in a process without this library; returns what it printed."""
    process = [sys.executable, "-I", "-c", textwrap.dedent(_ALONE) + textwrap.dedent(code)]
    return subprocess.run(process, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def serialized(**features: list[int]) -> bytes:
    """A tf.train.Example message of integers."""
    values = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=row)) for name, row in features.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()
