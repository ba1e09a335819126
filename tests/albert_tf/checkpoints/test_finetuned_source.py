"""Fine-tuned models as a start for other tasks, as the paper starts some GLUE tasks from MNLI."""

import json

import numpy as np
import pytest

from albert_tf import TextClassifier
from albert_tf.checkpoints.open_model import open_model
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.runtime.pretrained import load_pretrained
from data_prep.errors import InputError
from tests.albert_tf.tasks.task_models import CASES, CONFIG


@pytest.mark.slow
@pytest.mark.parametrize("name", ["topics", "span or none"])
def test_the_encoder_of_a_task_is_read(name, model_file, tmp_path):
    model = CASES[name].build(model_file)
    model.save(tmp_path / "any.keras")
    loaded = load_pretrained(tmp_path / "any.keras")
    assert loaded.missing == ("masked_lm", "sentence_order")
    for ours, theirs in zip(loaded.encoder.weights, model.encoder.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.vocabulary is not None
    assert loaded.vocabulary.content == model_file.read_bytes()
    assert loaded.head.kind == model.kind
    assert loaded.head.labels == model.labels
    assert loaded.head.dropout == 0.1


def test_without_a_preprocessor_there_is_no_vocabulary(tmp_path):
    CASES["text"].build(None).save(tmp_path / "any.keras")
    assert load_pretrained(tmp_path / "any.keras").vocabulary is None


def test_bfloat16_is_widened(tmp_path):
    """HDF5 has no such type."""
    model = TextClassifier(AlbertEncoder(CONFIG, dtype="bfloat16"), labels=("small", "big"), dtype="bfloat16")
    model.save(tmp_path / "any.keras")
    stored = open_model(tmp_path / "any.keras")
    head, words = model.classifier.output_dense.kernel, model.encoder.embeddings.word_embeddings
    np.testing.assert_array_equal(stored.head.weights["sequence_head/kernel"], np.asarray(head, "float32"))
    np.testing.assert_array_equal(stored.weights["embeddings/word_embeddings"], np.asarray(words, "float32"))


def test_other_vocabularies_beside_the_file_are_not_its_own(model_file, tmp_path):
    for name in ("one.model", "other.model"):
        (tmp_path / name).touch()
    CASES["text"].build(model_file).save(tmp_path / "any.keras")
    assert load_pretrained(tmp_path / "any.keras").vocabulary.content == model_file.read_bytes()


def test_best_seed_of_a_run_is_read(model_file, tmp_path):
    for seed in (0, 1):
        (tmp_path / f"seed_{seed}").mkdir()
        CASES["text"].build(model_file, seed=seed).save(tmp_path / f"seed_{seed}" / "model.keras")
    (tmp_path / "results.json").write_text(json.dumps({"best_seed": 1}))
    assert open_model(tmp_path).path == tmp_path / "seed_1" / "model.keras"
    (tmp_path / "results.json").write_text(json.dumps({"best_seed": 7}))
    with pytest.raises(InputError, match="There is no model in the folder"):
        open_model(tmp_path)
