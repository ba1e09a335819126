"""The normalization of a vocabulary reaches every format and every later stage."""

import dataclasses
import hashlib
import json
import tarfile

import pytest

from albert_tf.checkpoints.huggingface import write_huggingface
from albert_tf.checkpoints.kerashub import write_kerashub
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.runs import read_run_vocabulary
from albert_tf.checkpoints.tf1 import write_tf1
from albert_tf.conversion.convert import convert, write_keras
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.pretraining.run_folder import write_run_folder
from albert_tf.runtime.pretrained import load_pretrained
from albert_tf.tasks.texts.features import TextPreprocessor
from albert_tf.training.initial_weights import load_weights_into
from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.prepare.local import prepare
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary
from export.write import export_model
from tests.albert_tf.checkpoints.random_models import CONFIGS, VOCABULARY, random_stored
from tests.albert_tf.pretraining.plans import plan_of
from tests.data_prep.tokenizers.test_tokenizer_json import unigram

KEPT = Normalization(do_lower_case=False, keep_accents=True, remove_space=False)
MODEL = dataclasses.replace(
    random_stored(CONFIGS["one group"]), vocabulary=dataclasses.replace(VOCABULARY, normalization=KEPT)
)


WRITERS = [write_tf1, write_huggingface, write_keras, write_kerashub]


@pytest.mark.parametrize("write", WRITERS, ids=lambda f: f.__name__)
def test_through_files(tmp_path, write):
    write(MODEL, tmp_path)
    assert open_model(tmp_path).vocabulary == MODEL.vocabulary


@pytest.mark.parametrize("normalization", [Normalization(), Normalization(False), Normalization(True, True)])
def test_of_wordpiece_through_a_hugging_face_directory(tmp_path, normalization):
    """The last is one that our tokenizer refuses; the directory must not describe another one."""
    vocabulary = Vocabulary("wordpiece", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n", normalization)
    write_huggingface(dataclasses.replace(MODEL, vocabulary=vocabulary), tmp_path)
    assert open_model(tmp_path).vocabulary == vocabulary


@pytest.mark.very_slow
def test_through_conversions_and_an_export(tmp_path):
    write_huggingface(MODEL, tmp_path)
    convert(tmp_path, tmp_path / "keras", "keras")
    convert(tmp_path / "keras", tmp_path / "tf1", "tf1")
    export_model(tmp_path / "tf1", tmp_path / "export")
    convert(tmp_path / "export", tmp_path / "back", "huggingface")
    assert load_pretrained(tmp_path / "back").vocabulary == MODEL.vocabulary


def test_from_what_transformers_5_saves(pretraining_files, tmp_path, caplog):
    """tokenizer.json, without spiece.model: its rules become those of the SentencePiece model."""
    config = dataclasses.replace(CONFIGS["one group"], vocab_size=100)
    write_huggingface(random_stored(config, vocabulary=None), tmp_path)
    values = unigram(pretraining_files.spm_model_file, Normalization(keep_accents=True))
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    stored = open_model(tmp_path)
    assert stored.vocabulary.normalization == Normalization(False, keep_accents=True, remove_space=False)
    assert "other ids here than in transformers to words around" in caplog.text
    model = Vocabulary.read(pretraining_files.spm_model_file).tokenizer()
    assert stored.vocabulary.tokenizer().encode("the house, 1987.") == model.encode("the house, 1987.")


def test_with_a_task_model():
    preprocessor = TextPreprocessor(MODEL.vocabulary)
    assert TextPreprocessor.from_config(preprocessor.get_config()).vocabulary == MODEL.vocabulary


@pytest.fixture(scope="module")
def prepared(pretraining_files, tmp_path_factory):
    """Examples of a vocabulary with accents, and their manifest."""
    folder = tmp_path_factory.mktemp("accents")
    content = pretraining_files.spm_model_file.read_bytes()
    file = Vocabulary("sentencepiece", content, Normalization(keep_accents=True)).save(folder)
    (folder / "text.txt").write_text("Die Bücher der Königin.\nSie sind schön.\nUnd alt.\n" * 9)
    settings = PrepareSettings(
        str(folder / "text.txt"), str(folder / "a.tfrecord"), str(file), max_seq_length=16, dupe_factor=2
    )
    prepare(settings, show_progress=False)
    return Manifest.read(folder)


def test_from_the_vocabulary_to_a_run(prepared, tmp_path):
    facts = prepared.vocabulary
    assert facts.normalization == Normalization(keep_accents=True)
    run = tmp_path / "run"
    plan = plan_of((16, 2), config=CONFIGS["one group"], manifest=prepared, output_dir=str(run))
    write_run_folder(plan)
    assert read_run_vocabulary(run) == Vocabulary.read(facts.file)
    # Of a run without the file beside the vocabulary, the manifest knows.
    (run / "spm.normalization.json").unlink()
    assert read_run_vocabulary(run).normalization == facts.normalization


@pytest.mark.slow
def test_examples_with_another_normalization_are_refused(prepared, tmp_path):
    write_keras(MODEL, tmp_path)
    with pytest.raises(
        InputError, match="prepared with do_lower_case=true, keep_accents=true, .*Prepare them"
    ):
        prepared.vocabulary.read(tmp_path / "spm.model")
    model = AlbertPretrainer.of_stored(MODEL, seed=0)
    assert MODEL.vocabulary is not None
    sha256 = hashlib.sha256(MODEL.vocabulary.content).hexdigest()
    facts = dataclasses.replace(prepared.vocabulary, sha256=sha256, **dataclasses.asdict(KEPT))
    load_weights_into(model, tmp_path, vocabulary=facts)
    with pytest.raises(InputError, match="normalized as its vocabulary was. .*keep_accents=false.*Prepare"):
        load_weights_into(model, tmp_path, vocabulary=dataclasses.replace(facts, keep_accents=False))


def test_examples_with_another_normalization_than_an_archive_are_refused(prepared, tmp_path):
    """Its files are unpacked for as long as they are read."""
    (tmp_path / "tf1").mkdir()
    write_tf1(MODEL, tmp_path / "tf1")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "tf1", "tf1")
    model = AlbertPretrainer.of_stored(MODEL, seed=0)
    sha256 = hashlib.sha256(MODEL.vocabulary.content).hexdigest()
    facts = dataclasses.replace(prepared.vocabulary, sha256=sha256, **dataclasses.asdict(KEPT))
    load_weights_into(model, tmp_path / "model.tar.gz", vocabulary=facts)
    with pytest.raises(
        InputError, match="normalized as its vocabulary was. .*model.tar.gz has .*keep_accents=true"
    ):
        load_weights_into(
            model, tmp_path / "model.tar.gz", vocabulary=dataclasses.replace(facts, keep_accents=False)
        )


@pytest.mark.slow
def test_examples_of_another_vocabulary_are_refused(prepared, tmp_path):
    facts = prepared.vocabulary
    stored = dataclasses.replace(
        MODEL, vocabulary=dataclasses.replace(VOCABULARY, normalization=facts.normalization)
    )
    write_keras(stored, tmp_path)
    model = AlbertPretrainer.of_stored(stored, seed=0)
    with pytest.raises(
        InputError, match="prepared with its own vocabulary.*prepare them again with the model's"
    ):
        load_weights_into(model, tmp_path, vocabulary=facts)
    lost = dataclasses.replace(facts, file="nowhere.model")  # then only the number of pieces is known
    with pytest.raises(InputError, match="has another one than nowhere.model"):
        load_weights_into(model, tmp_path, vocabulary=lost)
    same = dataclasses.replace(lost, size=VOCABULARY.count_pieces())
    load_weights_into(model, tmp_path, vocabulary=same)


def test_a_run_keeps_its_vocabulary(prepared, tmp_path):
    """It would be overwritten, and the first steps' ids would mean nothing."""
    facts, run = prepared.vocabulary, tmp_path / "run"
    plan = plan_of((16, 2), config=CONFIGS["one group"], manifest=prepared, output_dir=str(run))
    write_run_folder(plan)
    other = dataclasses.replace(
        prepared, vocabulary=dataclasses.replace(facts, sha256="0", file="other.model")
    )
    with pytest.raises(
        InputError, match="vocabulary of the run.* Received some that were prepared with other.model"
    ):
        write_run_folder(plan_of((16, 2), config=CONFIGS["one group"], manifest=other, output_dir=str(run)))
    assert read_run_vocabulary(run) == facts.read()
