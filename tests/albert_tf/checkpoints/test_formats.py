"""A list of the formats that we read and write, and what each must do."""

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub.utils import filter_repo_objects

from albert_tf.checkpoints import downloads
from albert_tf.checkpoints.huggingface import write_huggingface
from albert_tf.checkpoints.kerashub import write_kerashub
from albert_tf.checkpoints.names import HeadSize
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.checkpoints.tf1 import write_tf1
from albert_tf.conversion.convert import write_keras
from data_prep.errors import InputError
from data_prep.files import visible_files
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.albert_tf.checkpoints.random_models import (
    CONFIGS,
    VOCABULARY,
    assert_same_weights,
    random_stored,
    random_weights,
)
from tests.albert_tf.checkpoints.test_stored_heads import kinds_in, random_head, stored_with

KEPT = Normalization(do_lower_case=False, keep_accents=True, remove_space=False)
SENTENCEPIECE = dataclasses.replace(VOCABULARY, normalization=KEPT)
WORDPIECE = Vocabulary("wordpiece", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n", Normalization(False))
PARTS = [(), ("sentence_order",), ("pooler", "sentence_order"), ("masked_lm",)]


@dataclasses.dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
      write: writes a model into an empty folder.
      weights: a file that stands for the folder, and is no model any more if it is damaged.
      others: further files that stand for the folder.
      lacks: the part that it has no place for.
      configs: names of the configurations that it can hold.
      heads: the heads that it has a place for, by the kind of task.
      hub: which files of it are downloaded.
    """

    write: Callable[[StoredModel, Path], list[str]]
    weights: str
    others: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    configs: tuple[str, ...] = tuple(CONFIGS)
    heads: tuple[str, ...] = ()
    hub: tuple[str, ...] = tuple(downloads._OTHER_HUB_FILES)


FORMATS = {
    "tf1": Format(
        write_tf1,
        "model.ckpt-best.data-00000-of-00001",
        ("model.ckpt-best", "model.ckpt-best.index"),
        heads=("classification", "regression", "multiple_choice", "question_answering"),
    ),
    "huggingface": Format(
        write_huggingface,
        "model.safetensors",
        ("config.json",),
        heads=(
            *("classification", "multi_label_classification", "regression", "multiple_choice"),
            *("question_answering", "token_classification"),
        ),
        hub=tuple(downloads._HUB_WEIGHTS),
    ),
    "keras": Format(
        write_keras,
        "model.keras",
        heads=(
            *("classification", "ordinal_classification", "multi_label_classification", "regression"),
            *("multiple_choice", "question_answering", "token_classification"),
        ),
    ),
    "kerashub": Format(
        write_kerashub,
        "model.weights.h5",
        lacks=("sentence_order",),
        configs=("one group", "two groups", "two blocks", "E == H"),
        heads=("classification",),
        hub=tuple(downloads._HUB_WEIGHTS),
    ),
}
EVERY_FORMAT = pytest.mark.parametrize("name", FORMATS)
SIZES = {
    "regression": HeadSize("sequence_head", 1),
    "multiple_choice": HeadSize("sequence_head", 1),
    "question_answering": HeadSize("span_head", 0),
    "token_classification": HeadSize("token_head", 3),
}


def assert_same_model(found: StoredModel, expected: StoredModel, missing: tuple[str, ...]) -> None:
    """All but the parts that are missing."""
    assert (found.config, found.vocabulary, found.missing) == (expected.config, expected.vocabulary, missing)
    names = {name for name in expected.weights if not name.startswith(missing or ("nothing",))}
    assert_same_weights(found.weights, {name: expected.weights[name] for name in names})


@pytest.mark.parametrize(
    ("name", "config"), [(name, config) for name in FORMATS for config in FORMATS[name].configs]
)
def test_what_is_written_is_read(name, config, tmp_path):
    """With the rules of its vocabulary, from the folder or a file in it."""
    one, stored = FORMATS[name], dataclasses.replace(random_stored(CONFIGS[config]), vocabulary=SENTENCEPIECE)
    one.write(stored, tmp_path)
    files = (one.weights.removesuffix(".data-00000-of-00001"), *one.others) if name != "kerashub" else ()
    for source in {tmp_path, *(tmp_path / file for file in files)}:
        assert_same_model(open_model(source), stored, one.lacks)


@pytest.mark.parametrize(("name", "without"), [*itertools.product(["tf1", "huggingface", "keras"], PARTS)])
def test_parts_may_be_missing_and_vocabularies_be_of_words(name, without, tmp_path):
    stored = random_stored(CONFIGS["one group"], *without, vocabulary=WORDPIECE)
    notes = FORMATS[name].write(stored, tmp_path)
    assert_same_model(open_model(tmp_path), stored, without)
    if name == "keras" and without:
        parts = ", ".join(without)
        assert notes == [f"untrained in model.keras, according to pretrained.json: {parts}"]


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in FORMATS for kind in FORMATS[name].heads])
def test_heads_are_written_and_read(name, kind, tmp_path):
    """TF1 checkpoints and KerasHub have no names of classes, and the first no dropout."""
    labels = ("1", "2", "3") if kind.endswith("classification") else ()
    head = random_head(SIZES.get(kind, HeadSize("sequence_head", 3)), kind, labels=labels, dropout=0.25)
    FORMATS[name].write(stored_with(head), tmp_path)
    stored = open_model(tmp_path)
    assert kind in kinds_in(stored.head)
    assert stored.head.size == head.size
    assert stored.head.labels == (labels if name in ("huggingface", "keras") else ())
    assert stored.head.dropout == (None if name == "tf1" else 0.25)
    assert_same_weights(stored.head.weights, head.weights)
    assert_same_weights(stored.weights, random_weights(CONFIGS["one group"], "masked_lm", "sentence_order"))


@EVERY_FORMAT
def test_damaged_weights_are_refused(name, tmp_path):
    one = FORMATS[name]
    one.write(random_stored(CONFIGS["one group"]), tmp_path)
    whole = (tmp_path / one.weights).read_bytes()
    for content in (whole[:-500], whole[:3000], whole[:50], b"", b"nothing like it"):
        (tmp_path / one.weights).write_bytes(content)
        with pytest.raises(InputError, match="is not a complete |does not fit its configuration"):
            open_model(tmp_path)


@EVERY_FORMAT
def test_every_file_is_downloaded_from_the_hub(name, tmp_path):
    """Of KerasHub, those of the task model too."""
    FORMATS[name].write(random_stored(CONFIGS["one group"]), tmp_path)
    files = [str(path.relative_to(tmp_path)) for path in visible_files(tmp_path)]
    patterns = [*downloads._HUB_FILES, *FORMATS[name].hub]
    assert list(filter_repo_objects(files, allow_patterns=patterns)) == files
