"""TF-Hub's KerasLayer trains our SavedModel, in a process with Keras 2."""

import pytest

from albert_tf.runtime.pretrained import load_pretrained
from tests.albert_tf.checkpoints.processes import run_python

for package in ("tensorflow_hub", "tf_keras"):
    pytest.importorskip(package, reason="an extra: pip install '.[hub]'")


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


@pytest.mark.very_slow
def test_keras_layer_trains_the_encoder(exported, source):
    printed = run_python(TRAIN, exported("encoder"))
    weights, moved, first, last = map(float, printed.split())
    assert weights == len(load_pretrained(source).model.trainable_variables)
    assert moved == weights - 7  # all but those of the pretraining heads
    assert last < 0.7 * first
