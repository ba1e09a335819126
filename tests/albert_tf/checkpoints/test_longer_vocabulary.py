"""A model with a longer vocabulary: new rows from those that they replace; it goes through formats and exports."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.longer_vocabulary import with_vocabulary
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.sources import SourceFlags
from albert_tf.conversion.convert import convert
from albert_tf.runtime.pretrained import load_pretrained
from albert_tf.tasks.texts.model import TextClassifier
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from data_prep.tokenizers.vocabulary_extension import extend_vocabulary
from export.write import export_model
from tests.albert_tf.checkpoints.random_models import spm_model
from tests.data_prep.nasty import LINES

NAMES = ["norblak", "veltrim", "veltrona", "hv-200", "covid-19", "grokik"]
TABLES = {"embeddings/word_embeddings", "masked_lm/output_bias"}
ROWS = 104  # of the checkpoint, four more than its vocabulary has pieces


@pytest.fixture(scope="module")
def stored(finetuning_files):
    return open_model(finetuning_files.checkpoint)


@pytest.fixture(scope="module")
def longer(stored, tmp_path_factory) -> Vocabulary:
    vocabulary = extend_vocabulary(stored.vocabulary, NAMES, 200)
    return Vocabulary.read(vocabulary.save(tmp_path_factory.mktemp("longer")))


def assert_has_means(weights, stored, longer, size=106):
    """Each new row is the mean of the rows of the pieces that the old tokenizer makes of the new piece."""
    tokenizer = stored.vocabulary.tokenizer()
    for name in TABLES:
        old, new = stored.weights[name], weights[name]
        assert new.shape == (size, *old.shape[1:]) and new.dtype == old.dtype
        np.testing.assert_array_equal(new[:100], old[:100])
        for i, piece in enumerate(longer.tokenizer().pieces[100:], 100):
            mean = np.mean([old[part] for part in tokenizer.encode(piece.removeprefix("▁"))], axis=0)
            np.testing.assert_allclose(new[i], mean, atol=1e-6)


def test_new_rows_are_means(stored, longer):
    model = with_vocabulary(stored, longer)
    assert (model.config.vocab_size, model.vocabulary) == (106, longer)
    assert_has_means(model.weights, stored, longer)
    for name, array in stored.weights.items():
        assert name in TABLES or model.weights[name] is array
    assert with_vocabulary(stored, stored.vocabulary).weights is stored.weights


def test_rows_without_a_piece_are_used_first(stored, longer):
    few = dataclasses.replace(longer, content=extend_vocabulary(stored.vocabulary, NAMES, 102).content)
    model = with_vocabulary(stored, few)
    assert model.config == stored.config
    assert_has_means(model.weights, stored, few, ROWS)
    for name in TABLES:
        np.testing.assert_array_equal(model.weights[name][102:], stored.weights[name][102:])


def test_what_is_no_extension(stored):
    with pytest.raises(InputError, match="begins with the 100 pieces of its own"):
        with_vocabulary(stored, Vocabulary("sentencepiece", spm_model(101)))


@pytest.mark.very_slow
def test_through_conversions_and_an_export(finetuning_files, stored, longer, tmp_path):
    """Of transformers and back, and into a SavedModel that takes texts: equal ids and equal rows."""
    flags = SourceFlags(vocab_file=longer.file)
    convert(finetuning_files.checkpoint, tmp_path / "hf", "huggingface", flags=flags, verify=False)
    convert(tmp_path / "hf", tmp_path / "tf1", "tf1", verify=False)
    found = open_model(tmp_path / "tf1")
    assert found.vocabulary == longer
    assert_has_means(found.weights, stored, longer)
    lines = [*LINES, *NAMES, "Norblak, (veltrim) hv-2000 covid-19,5", "norblak's hv-200, hv-200"]
    ids = [line.tolist() for line in longer.tokenizer().encode_batch(lines)]
    export_model(tmp_path / "tf1", tmp_path / "saved", "preprocessor", seq_length=12)
    assert tf.saved_model.load(tmp_path / "saved").tokenize(tf.constant(lines)).to_list() == ids


def test_in_python(finetuning_files, stored, longer):
    loaded = load_pretrained(finetuning_files.checkpoint, vocab_file=longer.file)
    assert loaded.encoder_inputs(["norblak"])["input_ids"].shape == (1, 3)
    table = np.asarray(loaded.encoder.embeddings.word_embeddings)
    assert_has_means({**stored.weights, **_tables(loaded, table)}, stored, longer)
    classifier = TextClassifier.from_pretrained(
        finetuning_files.checkpoint, ["a", "b"], vocab_file=longer.file
    )
    np.testing.assert_array_equal(np.asarray(classifier.encoder.embeddings.word_embeddings), table)


def _tables(loaded, table):
    return dict(zip(sorted(TABLES), (table, np.asarray(loaded.model.masked_lm.output_bias)), strict=True))
