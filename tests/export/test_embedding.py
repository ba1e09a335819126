import numpy as np
import pytest
import tensorflow as tf

from albert_tf.runtime.pretrained import load_pretrained
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from export.write import export_model
from tests.data_prep.nasty import LINES
from tests.export.conftest import write_source


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", pytest.param("pooled", marks=pytest.mark.very_slow)])
def test_equals_the_encoder_on_single_texts(source, exported, pooling, tokenizer):
    encoder, folder = load_pretrained(source).encoder, exported("embedding", pooling=pooling)
    loaded = tf.saved_model.load(folder)
    rows = []
    for line in LINES:
        outputs = encoder({"input_ids": np.array([[2, *tokenizer.encode(line)[:14], 3]])})
        mean = np.mean(outputs["sequence_output"][0], axis=0)
        rows.append(outputs["pooled_output"][0] if pooling == "pooled" else mean)
    outputs = loaded(tf.constant(LINES))
    np.testing.assert_allclose(outputs["embedding"], rows, atol=1e-5)
    if pooling == "mean":
        np.testing.assert_allclose(load_pretrained(source).embed(LINES), rows, atol=1e-5)
    served = loaded.signatures["serving_default"](text=tf.constant(LINES))
    np.testing.assert_array_equal(served["embedding"], outputs["embedding"])
    assert loaded(tf.zeros([0], tf.string))["embedding"].shape == (0, 24)
    assert (folder / "assets.extra" / "tf_serving_warmup_requests").is_file()


@pytest.mark.very_slow
def test_pooled_needs_a_pooler(tmp_path, model_file):
    vocabulary = Vocabulary("sentencepiece", model_file.read_bytes())
    source = write_source(tmp_path / "source", "pooler", "sentence_order", vocabulary=vocabulary)
    with pytest.raises(InputError, match="--pooling=pooled needs a pooler"):
        export_model(source, tmp_path / "saved", "embedding", pooling="pooled")
    export_model(source, tmp_path / "saved", "embedding")
    loaded = tf.saved_model.load(tmp_path / "saved")
    assert loaded(tf.constant(["a"]))["embedding"].shape == (1, 24)
    assert len(loaded.trainable_variables) == len(load_pretrained(source).encoder.trainable_variables) - 2
