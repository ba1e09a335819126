"""Other programs use our SavedModels: TF-Hub's KerasLayer, hub.load and saved_model_cli, in separate processes."""

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from albert_tf.runtime.pretrained import load_pretrained
from export.write import export_model

pytestmark = pytest.mark.very_slow
needs_hub = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("tensorflow_hub", "tf_keras"))),
    reason="an extra: pip install '.[hub]'",
)


def run(command: list[str], folder: Path) -> str:
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


@pytest.fixture(scope="module")
def encoder(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "saved"
    export_model(source, folder)
    return folder


TRAIN = """
    import os
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import numpy as np
    import tensorflow as tf
    import tensorflow_hub as hub
    import tf_keras

    tf_keras.utils.set_random_seed(0)
    encoder = hub.KerasLayer(".", trainable=True)
    names = ("input_word_ids", "input_mask", "input_type_ids")
    inputs = {name: tf_keras.Input([None], dtype=tf.int32, name=name) for name in names}
    guess = tf_keras.layers.Dense(1)(encoder(inputs)["pooled_output"])
    model = tf_keras.Model(inputs, guess)
    model.compile(tf_keras.optimizers.Adam(3e-3), tf_keras.losses.BinaryCrossentropy(from_logits=True))
    ids = np.random.default_rng(0).integers(5, 100, (32, 8)).astype("int32")
    data = {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": np.zeros_like(ids)}
    labels = (ids[:, 1] > 50).astype("float32")
    before = [variable.numpy() for variable in encoder.trainable_weights]
    losses = model.fit(data, labels, batch_size=8, epochs=15, verbose=0).history["loss"]
    moved = sum(np.any(old != new) for old, new in zip(before, encoder.trainable_weights))
    print(len(before), moved, losses[0], losses[-1])
"""


@needs_hub
def test_keras_layer_trains_the_encoder(encoder, source):
    printed = run([sys.executable, "-c", textwrap.dedent(TRAIN)], encoder)
    weights, moved, first, last = map(float, printed.split())
    assert weights == len(load_pretrained(source).model.trainable_variables)
    assert moved == weights - 7  # all but those of the pretraining heads
    assert last < 0.7 * first


def test_hub_load_calls_the_preprocessor(source, tokenizer, tmp_path):
    pytest.importorskip("tensorflow_hub", reason="an extra: pip install '.[hub]'")
    export_model(source, tmp_path / "saved", "preprocessor", seq_length=12)
    text = "The captain sailed past 300 apples, in 1987."
    code = f"""
        import tensorflow as tf
        import tensorflow_text
        import tensorflow_hub as hub

        preprocessor = hub.load(".")
        segments = [preprocessor.tokenize(tf.constant([{text!r}]))]
        packed = preprocessor.bert_pack_inputs(segments, seq_length=16)
        print(packed["input_word_ids"].numpy()[0].tolist(), preprocessor(tf.constant(["a"]))["input_mask"].shape)
    """
    ids = [tokenizer.cls_id, *tokenizer.encode(text)[:14], tokenizer.sep_id]
    printed = run([sys.executable, "-c", textwrap.dedent(code)], tmp_path / "saved")
    assert printed.strip() == f"{ids + [0] * (16 - len(ids))} (1, 12)"


def test_saved_model_cli_shows_and_runs_the_serving_signature(encoder, source, tmp_path):
    cli = [sys.executable, "-m", "tensorflow.python.tools.saved_model_cli"]
    shown = run([*cli, "show", "--dir=.", "--tag_set=serve", "--signature_def=serving_default"], encoder)
    for line in (
        "inputs['input_word_ids'] tensor_info:\n      dtype: DT_INT32\n      shape: (-1, -1)",
        "outputs['sequence_output'] tensor_info:\n      dtype: DT_FLOAT\n      shape: (-1, -1, 24)",
        "Method name is: tensorflow/serving/predict",
    ):
        assert line in shown
    ids = [[2, 13, 1, 9, 3]]
    given = f"input_word_ids={ids};input_mask={[[1] * 5]};input_type_ids={[[0] * 5]}"
    command = [*cli, "run", "--dir=.", "--tag_set=serve", "--signature_def=serving_default"]
    run([*command, f"--input_exprs={given}", f"--outdir={tmp_path}"], encoder)
    expected = load_pretrained(source).encoder({"input_ids": np.array(ids)})
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), expected[name], atol=1e-5)
