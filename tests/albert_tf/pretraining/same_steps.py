"""Twenty optimizer steps of a tiny model on any devices; test_steps.py compares the results.

Run it as a program for several devices, which need processes of their own:

    python -m tests.albert_tf.pretraining.same_steps '{"strategy": "mirrored", "num_devices": 2}' '[{}]'
    KERAS_BACKEND=jax python -m tests.albert_tf.pretraining.same_steps '{"num_devices": 4}' '[{"devices": 1}, {}]'
"""

import json
import sys
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from albert_tf import AlbertConfig, AlbertPretrainer, Lamb, WarmupPolynomialDecay
from albert_tf.kernels import formulas
from albert_tf.model.pretrainer import pretraining_metrics
from albert_tf.pretraining.devices import formula_compiler
from albert_tf.pretraining.flags import PretrainingFlags
from albert_tf.pretraining.objective import PretrainingObjective
from albert_tf.pretraining.steps import EvalStep
from albert_tf.training.devices import Devices, make_devices, started_backend

CONFIG = AlbertConfig(
    vocab_size=50,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=12,
)
N, T, P, B = 64, 12, 3, 8  # N examples, B of them a step


def examples() -> dict[str, np.ndarray]:
    """N random examples."""
    rng = np.random.default_rng(0)
    return {
        "input_ids": rng.integers(0, 50, (N, T)).astype("int32"),
        "input_mask": np.ones((N, T), "int32"),
        "token_type_ids": rng.integers(0, 2, (N, T)).astype("int32"),
        "masked_lm_positions": rng.integers(0, T, (N, P)).astype("int32"),
        "masked_lm_ids": rng.integers(0, 50, (N, P)).astype("int32"),
        # Unequal, so that the mean of the parts' means differs from the global batch's mean.
        "masked_lm_weights": (rng.random((N, P)) < np.linspace(0.1, 1, N)[:, None]).astype("float32"),
        "sentence_order": rng.integers(0, 2, N).astype("int32"),
        "sentence_order_weights": (rng.random(N) < 0.7).astype("float32"),
    }


def train(
    devices: Devices,
    *,
    steps=20,
    dtype="float32",
    remat=False,
    scan_layers=False,
    dropout=0.0,
    shape=None,
    same_example=False,  # every example is the first one, with a label for its pair
    peak=0.02,
    large=formulas.LARGE,  # from which formulas are compiled; the arrays have a few hundred elements
    parallel_parts=1,
    **step,
) -> dict:
    """Trains for some steps; `shape` changes `CONFIG`, and `step` has options of `Devices.optimizer_step`."""
    data = examples()
    if same_example:
        data = {name: np.repeat(values[:1], N, axis=0) for name, values in data.items()}
        data["sentence_order_weights"] = np.ones(N, "float32")
    config = AlbertConfig(**{**CONFIG.to_dict(), **(shape or {}), "hidden_dropout_prob": dropout})
    with devices.scope():
        model = AlbertPretrainer(config, seed=1, remat=remat, scan_layers=scan_layers, dtype=dtype)
        optimizer = Lamb(WarmupPolynomialDecay(peak, 30, 5))
        optimizer.build(model.trainable_variables)
        rng = np.random.default_rng(1)
        for variable in model.trainable_variables:
            if np.ptp(variable.numpy()):  # drawn, and by each backend in its own way
                variable.assign(rng.normal(0, 0.02, variable.shape))

    def batches(context):
        dataset = tf.data.Dataset.from_tensor_slices(data).repeat()
        dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
        return dataset.batch(context.get_per_replica_batch_size(B), drop_remainder=True)

    iterator = devices.batches(batches)
    if keras.backend.backend() == "tensorflow":
        compiler = None if step.get("jit_compile") else formula_compiler()
        step |= {"parallel_parts": parallel_parts, "formula_compiler": compiler}
    train_steps = devices.optimizer_step(PretrainingObjective(model), optimizer, **step)
    with mock.patch.object(formulas, "LARGE", large):
        sums = [train_steps(iterator, 1, train_steps.zero_sums()) for _ in range(steps)]
    heldout = devices.divide(lambda: tf.data.Dataset.from_tensor_slices(data).batch(B), B)
    return {
        "trace": [float(pretraining_metrics(one)["loss"]) for one in sums],
        "correct": [float(one["sentence_order_correct"]) for one in sums],
        "weights": np.concatenate([v.numpy().ravel() for v in model.trainable_variables]).tolist(),
        "evaluation": EvalStep(model, devices, parallel_parts=parallel_parts).metrics(heldout),
        "dtypes": sorted({variable.dtype for variable in (*model.trainable_variables, *optimizer.variables)}),
    }


def main(flags: str, options: str) -> None:
    """Prints what `train` returns for each of several options, as JSON."""
    settings = PretrainingFlags("", "", do_train=True, **json.loads(flags))
    results = []
    with started_backend(settings):
        devices = make_devices(settings)
        for each in json.loads(options):
            number = each.pop("devices", devices.replicas)
            fewer = (
                type(devices)(list(devices.mesh.devices[:number])) if number < devices.replicas else devices
            )
            results.append(train(fewer, **each))
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
