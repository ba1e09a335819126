"""The step's mathematics does not depend on how many devices share it."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = """
    import json, sys
    import numpy as np
    import tensorflow as tf

    replicas = int(sys.argv[1])
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
    strategy = tf.distribute.get_strategy()
    if replicas > 1:
        strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])

    from albert_tf import AlbertConfig, AlbertPretrainer, Lamb, WarmupPolynomialDecay
    from albert_tf.models import pretraining_metrics
    from albert_tf.training.steps import evaluate, make_eval_function, make_train_function, zero_sums

    config = AlbertConfig(
        vocab_size=50, embedding_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=12,
    )
    rng = np.random.default_rng(0)
    N, T, P = 64, 12, 3
    data = {
        "input_ids": rng.integers(0, 50, (N, T)).astype("int32"),
        "input_mask": np.ones((N, T), "int32"),
        "token_type_ids": rng.integers(0, 2, (N, T)).astype("int32"),
        "masked_lm_positions": rng.integers(0, T, (N, P)).astype("int32"),
        "masked_lm_ids": rng.integers(0, 50, (N, P)).astype("int32"),
        # Unequal, so that a mean of the replicas' means would differ from the global batch's mean.
        "masked_lm_weights": (rng.random((N, P)) < np.linspace(0.1, 1, N)[:, None]).astype("float32"),
        "sentence_order": rng.integers(0, 2, N).astype("int32"),
        "sentence_order_weights": np.ones(N, "float32"),
    }
    with strategy.scope():
        model = AlbertPretrainer(config, seed=1)
        optimizer = Lamb(WarmupPolynomialDecay(0.02, 30, 5))
        optimizer.build(model.trainable_variables)

    def batches(context):
        size = context.get_per_replica_batch_size(8)
        return tf.data.Dataset.from_tensor_slices(data).repeat().batch(size, drop_remainder=True)

    iterator = iter(strategy.distribute_datasets_from_function(batches))
    train_steps = make_train_function(model, optimizer, strategy)
    sums = [train_steps(iterator, tf.constant(1), zero_sums()) for _ in range(20)]
    trace = [float(pretraining_metrics(step_sums)["loss"]) for step_sums in sums]
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(data).batch(24))
    metrics = evaluate(make_eval_function(model, strategy), dataset)
    weights = [variable.numpy().ravel().tolist() for variable in model.trainable_variables]
    print(json.dumps({"trace": trace, "weights": sum(weights, []), "metrics": metrics}))
"""


def run(replicas: int) -> dict:
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(replicas)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)


@pytest.mark.slow
def test_two_mirrored_devices_equal_one():
    one, two = run(1), run(2)
    assert one["trace"] == pytest.approx(two["trace"], abs=1e-5)
    assert one["weights"] == pytest.approx(two["weights"], abs=1e-5)
    assert one["metrics"] == pytest.approx(two["metrics"], abs=1e-5)
    assert one["metrics"]["eval_examples"] == 64
    assert one["trace"][-1] < one["trace"][0]
