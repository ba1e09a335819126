"""Keras `fit` on JAX: `python -m tests.albert_tf.tasks.jax_fit FOLDER`, with four devices.

Trains a pretrainer and a classifier for 20 steps, with dropout, on one device, on four, and on four with a resume
from a file after 10. Writes for each the variables at the end, FOLDER/NAME-RUN.npz; the trained model,
FOLDER/NAME.keras; inputs and its outputs, FOLDER/NAME-inputs.npz and FOLDER/NAME-outputs.npz.
"""

import sys
from pathlib import Path

import keras
import numpy as np

from albert_tf import TextClassifier
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.optimizers import AdamW, Lamb, WarmupPolynomialDecay

STEPS, B, T, P, V = 20, 8, 12, 3, 50
CONFIG = AlbertConfig(
    vocab_size=V,
    embedding_size=10,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=36,
    max_position_embeddings=T,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)


def examples() -> dict[str, np.ndarray]:
    """The batches of all steps, one after the other, for both models."""
    rng, rows = np.random.default_rng(0), STEPS * B
    return {
        "input_ids": rng.integers(0, V, (rows, T)).astype("int32"),
        "input_mask": (np.arange(T) < rng.integers(2, T + 1, (rows, 1))).astype("int32"),
        "token_type_ids": rng.integers(0, 2, (rows, T)).astype("int32"),
        "masked_lm_positions": rng.integers(0, T, (rows, P)).astype("int32"),
        "masked_lm_ids": rng.integers(0, V, (rows, P)).astype("int32"),
        "masked_lm_weights": rng.integers(0, 2, (rows, P)).astype("float32"),
        "sentence_order": rng.integers(0, 2, rows).astype("int32"),
        "label": rng.integers(0, 2, rows).astype("int32"),
    }


def pretrainer() -> AlbertPretrainer:
    model = AlbertPretrainer(CONFIG, seed=1)
    model.compile(Lamb(WarmupPolynomialDecay(0.02, 2 * STEPS, STEPS // 4), global_clipnorm=1.0))
    return model


def classifier() -> TextClassifier:
    model = TextClassifier(AlbertEncoder(CONFIG, seed=1), ("no", "yes"), seed=2)
    model.compile(AdamW(WarmupPolynomialDecay(0.002, 2 * STEPS, STEPS // 4), global_clipnorm=1.0))
    return model


MODELS = {"pretrainer": pretrainer, "classifier": classifier}


def train(model, start: int, stop: int) -> None:
    """Takes the steps [start, stop), one batch each."""
    data = {name: array[start * B : stop * B] for name, array in examples().items()}
    model.fit(data, batch_size=B, shuffle=False, verbose=0)


def write_variables(model, path: Path) -> None:
    """Writes weights, dropout state, and the optimizer's steps and moments."""
    variables = [*model.variables, *model.optimizer.variables]
    np.savez(path, **{f"{i} {variable.path}": variable.numpy() for i, variable in enumerate(variables)})


def run(name: str, folder: Path) -> None:
    """Trains one of `MODELS` in all three ways."""
    path = folder / f"{name}.keras"
    alone = MODELS[name]()
    train(alone, 0, STEPS)
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    together = MODELS[name]()
    train(together, 0, STEPS // 2)
    together.save(path)
    resumed = keras.saving.load_model(path)
    for model in (together, resumed):
        train(model, STEPS // 2, STEPS)
        devices = model.trainable_variables[0].value.sharding.device_set
        assert len(devices) == 4, f"The steps ran on {devices}."
    resumed.save(path)
    inputs = {key: array[:B] for key, array in examples().items() if key in resumed.input_names}
    outputs = keras.tree.flatten(resumed.predict(inputs, verbose=0))
    keras.distribution.set_distribution(None)
    np.savez(folder / f"{name}-inputs.npz", **inputs)
    np.savez(folder / f"{name}-outputs.npz", *outputs)
    for way, model in {"one": alone, "four": together, "resumed": resumed}.items():
        write_variables(model, folder / f"{name}-{way}.npz")


if __name__ == "__main__":
    assert len(keras.distribution.list_devices()) == 4
    for name in MODELS:
        run(name, Path(sys.argv[1]))
