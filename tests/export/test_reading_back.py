"""`load_pretrained` of our own SavedModels: an export can be fine-tuned, or converted again."""

import shutil

import ml_dtypes
import numpy as np
import pytest

from albert_tf.checkpoints.open_model import open_model
from albert_tf.config import AlbertConfig
from albert_tf.runtime.pretrained import load_pretrained
from data_prep.errors import InputError
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary
from export.write import export_model
from tests.albert_tf.checkpoints.random_models import assert_same_weights
from tests.export.conftest import CONFIG, write_source
from tests.export.test_finetuned import saved

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(exported):
    return exported("encoder")


@pytest.fixture
def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


@pytest.mark.very_slow
def test_restores_everything(source, folder):
    before, after = open_model(source), open_model(folder)
    assert after.format == "export"
    assert (after.config, after.vocabulary) == (before.config, before.vocabulary)
    assert (after.missing, after.notes) == ((), ())
    assert_same_weights(after.weights, before.weights)
    ids = {"input_ids": np.array([[2, 13, 9, 3]])}
    for name, array in load_pretrained(source).encoder(ids).items():
        np.testing.assert_array_equal(load_pretrained(folder).encoder(ids)[name], array)


@pytest.mark.very_slow
def test_restores_parts_case_and_precision(vocab_file, tmp_path):
    vocabulary = Vocabulary("wordpiece", vocab_file.read_bytes(), Normalization(do_lower_case=False))
    source = write_source(tmp_path / "source", "pooler", "sentence_order", vocabulary=vocabulary)
    export_model(source, tmp_path / "saved", dtype="bfloat16")
    before, after = open_model(source), open_model(tmp_path / "saved")
    assert after.missing == ("pooler", "sentence_order")
    assert after.vocabulary == before.vocabulary
    assert after.notes == ("the weights were rounded to bfloat16",)
    rounded = {
        name: array.astype(ml_dtypes.bfloat16).astype("float32") for name, array in before.weights.items()
    }
    assert_same_weights(after.weights, rounded)


def test_damaged_exports(copied):
    config = copied / "assets" / "albert_config.json"
    AlbertConfig.from_dict({**CONFIG.to_dict(), "hidden_size": 48}).to_json_file(config)
    with pytest.raises(InputError, match=r"does not fit its configuration: .*should have \[48"):
        open_model(copied)
    AlbertConfig.from_dict({**CONFIG.to_dict(), "embedding_size": 24}).to_json_file(config)
    with pytest.raises(InputError, match="2 names left over: embeddings/embedding_projection/bias"):
        open_model(copied)
    config.write_text("{")
    with pytest.raises(InputError, match=r"albert_config.json"):
        open_model(copied)
    (data,) = (copied / "variables").glob("*.data-*")
    data.write_bytes(data.read_bytes()[:5000])
    with pytest.raises(InputError, match="is not a complete checkpoint"):
        open_model(copied)
    (copied / "variables" / "variables.index").write_bytes(b"no index")
    with pytest.raises(InputError, match="is not a complete SavedModel"):
        open_model(copied)


@pytest.mark.very_slow
def test_only_encoders_are_read(exported, model_file, tmp_path):
    _, file = saved("text", model_file, tmp_path)
    export_model(file, tmp_path / "classifier", "classifier")
    for folder in (exported("embedding", pooling="mean"), tmp_path / "classifier"):
        with pytest.raises(
            InputError, match="an export for predictions only.*Only exports of --kind=encoder"
        ):
            open_model(folder)
    with pytest.raises(InputError, match="not of an ALBERT encoder.*our own exports of --kind=encoder"):
        open_model(exported("preprocessor", seq_length=12))
