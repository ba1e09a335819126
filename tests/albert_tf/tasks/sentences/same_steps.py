"""Three optimizer steps of a tiny sentence encoder on any devices; test_parts.py compares the results.

Run it as a program for several devices, which need processes of their own:

    python -m tests.albert_tf.tasks.sentences.same_steps '{"strategy": "mirrored", "num_devices": 2}' '[{}]'
"""

import json
import sys

import numpy as np
import tensorflow as tf

from albert_tf import AdamW, AlbertConfig, AlbertEncoder, SentenceEncoder
from albert_tf.tasks.objective import TaskObjective
from albert_tf.training.device_flags import DeviceFlags
from albert_tf.training.devices import Devices, make_devices, started_backend
from tests.albert_tf.pretraining.same_steps import CONFIG

B, C, T = 8, 3, 7


def batch(kind: str) -> dict[str, np.ndarray]:
    """Pairs with negatives, some of them equal or missing; the last one fills the batch. Or other data."""
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 50, (B, C, T)).astype("int32")
    mask = (np.arange(T) < rng.integers(3, T + 1, (B, C, 1))).astype("int32")
    ids[1, 1], mask[1, 1] = ids[0, 1], mask[0, 1]  # two pairs with the same second text
    ids[5, 0], mask[5, 0] = ids[2, 0], mask[2, 0]  # and two with the same first text
    mask[[3, 6], 2] = 0
    weights = np.linspace(0.5, 1.5, B).astype("float32") * (np.arange(B) < B - 1)
    arrays = {"input_ids": ids, "input_mask": mask, "token_type_ids": 0 * ids, "sample_weight": weights}
    if kind == "scores":
        arrays = {name: value[:, :2] if value.ndim > 1 else value for name, value in arrays.items()}
        arrays["label"] = rng.random(B).astype("float32")
    if kind == "classes":
        arrays = {name: value[:, 0] if value.ndim > 1 else value for name, value in arrays.items()}
        arrays["group"] = np.array([0, 1, 0, 2, 1, 3, 0, 0], "int32")
    return arrays


def train(devices: Devices, *, kind="pairs", dropout=0.0, steps=3, **options) -> dict:
    """Trains for some steps; `options` are those of `Devices.optimizer_step`."""
    config = AlbertConfig(**{**CONFIG.to_dict(), "hidden_dropout_prob": dropout})
    with devices.scope():
        model = SentenceEncoder(AlbertEncoder(config, seed=1), units=5, symmetric=True, temperature=0.3)
        optimizer = AdamW(0.001)
        optimizer.build(model.trainable_variables)
        rng = np.random.default_rng(1)
        for variable in model.trainable_variables:
            if np.ptp(variable.numpy()):  # drawn, and by each backend in its own way
                variable.assign(rng.normal(0, 0.1, variable.shape))
    arrays = batch(kind)
    step = devices.optimizer_step(TaskObjective(model), optimizer, **options)
    batches = iter(devices.divide(lambda: tf.data.Dataset.from_tensors(arrays).repeat(), B))
    sums = [step(batches, 1, step.zero_sums()) for _ in range(steps)]
    return {
        "losses": [float(one["loss"] / one["loss_weight"]) for one in sums],
        "norms": [float(one["gradient_norm"]) for one in sums],
        "weights": np.concatenate([v.numpy().ravel() for v in model.trainable_variables]).tolist(),
    }


def main(flags: str, options: str) -> None:
    """Prints what `train` returns for each of several options, as JSON."""
    settings = DeviceFlags(**json.loads(flags))
    with started_backend(settings):
        devices = make_devices(settings)
        print(json.dumps([train(devices, **each) for each in json.loads(options)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
