"""Recomputing activations changes memory, not mathematics; steps are taken by the real training step."""

import json
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_cli import cli
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer, pretraining_metrics, pretraining_sums
from tests.albert_tf.model.test_pretrainer import random_batch
from tests.processes import run_together


def with_dropout(config, **changes) -> AlbertConfig:
    rates = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3}
    return AlbertConfig.from_dict({**config.to_dict(), **rates, **changes})


def gradients(config, *, jit_compile: bool = False, steps: int = 2, **model_flags) -> list[np.ndarray]:
    """Of the loss by every weight, in the second of two steps: masks must follow each other alike too."""
    model, batch = AlbertPretrainer(config, seed=3, **model_flags), random_batch(config)

    @tf.function(jit_compile=jit_compile)
    def step():
        with tf.GradientTape() as tape:
            loss = pretraining_metrics(pretraining_sums(model(batch, training=True), batch))["loss"]
        values = [variable.value for variable in model.trainable_variables]
        return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, values)]

    for _ in range(steps):
        found = step()
    return [gradient.numpy() for gradient in found]


LEVELS = ("activations", "layers")
SHARING = [{}, {"parameter_sharing": "none"}, {"num_hidden_groups": 2, "inner_group_num": 2}]


@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.xla])]
)
@pytest.mark.parametrize("changes", SHARING, ids=["all", "none", "groups"])
@pytest.mark.parametrize("remat", LEVELS)
def test_gradients_with_dropout_are_the_same(tiny_config, remat, changes, jit_compile):
    config = with_dropout(tiny_config, **changes)
    kept = gradients(config, remat=False, jit_compile=jit_compile)
    recomputed = gradients(config, remat=remat, jit_compile=jit_compile)
    assert max(np.abs(array).max() for array in kept) > 0.01
    for one, other in zip(kept, recomputed, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)


@pytest.mark.parametrize("remat", LEVELS)
def test_masks_do_differ_between_steps(tiny_config, remat):
    """Or the equality above would show nothing about masks."""
    config = with_dropout(tiny_config)
    one, two = (gradients(config, remat=remat, steps=steps)[0] for steps in (1, 2))
    assert np.abs(one - two).max() > 1e-3


def test_no_two_dropouts_share_a_seed(tiny_config, monkeypatch):
    config = with_dropout(tiny_config, inner_group_num=2)
    encoder, drawn = AlbertEncoder(config, seed=1), []

    def dropout(x, rate, seed):
        drawn.append(tuple(np.asarray(seed.next())))
        return x

    monkeypatch.setattr(keras.random, "dropout", dropout)
    for _ in range(2):
        encoder({"input_ids": np.zeros((1, 3), "int32")}, training=True)
    assert len(set(drawn)) == len(drawn) == 2 * (1 + 4 * 2 * 3)


@pytest.mark.parametrize(
    ("remat", "level"), [(False, False), (True, "layers"), *((level, level) for level in LEVELS)]
)
def test_remat_is_kept_in_the_configuration(tiny_config, remat, level):
    for kind in (AlbertPretrainer, AlbertEncoder):
        again = kind.from_config(kind(tiny_config, remat=remat).get_config())
        assert again.remat == getattr(again, "encoder", again).remat == level


@pytest.mark.parametrize("kind", [AlbertPretrainer, AlbertEncoder])
def test_other_levels_are_refused(tiny_config, kind):
    with pytest.raises(ValueError, match="must be a bool, 'activations' or 'layers'. Received 'attention'"):
        kind(tiny_config, remat="attention")


def test_what_each_level_computes_again(tiny_config):
    config, L = with_dropout(tiny_config, num_hidden_layers=3), 3

    def count(remat) -> Counter:
        model, batch = AlbertPretrainer(config, remat=remat), random_batch(config)

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                outputs = model.encoder(batch, training=True)["sequence_output"]
            return tape.gradient(outputs, [variable.value for variable in model.encoder.trainable_variables])

        return Counter(operation.type for operation in step.get_concrete_function().graph.get_operations())

    kept, activations, layers = map(count, (False, *LEVELS))
    for one in ("Softmax", "Tanh"):
        assert activations[one] == layers[one] == kept[one] + L
    # Scores and context of the products of tokens with tokens, and of the others the last one; what is not used of
    # them, context and output, TensorFlow and XLA leave out.
    products = [
        operations["BatchMatMulV2"] + operations["MatMul"] for operations in (kept, activations, layers)
    ]
    assert products == [products[0], products[0] + 3 * L, products[0] + 8 * L]


def test_inference_computes_nothing_again(tiny_config):
    def operations(remat) -> list[str]:
        encoder = AlbertEncoder(tiny_config, remat=remat)
        function = tf.function(lambda ids: encoder({"input_ids": ids})["sequence_output"])
        graph = function.get_concrete_function(tf.TensorSpec((2, 8), tf.int32)).graph
        return [operation.type for operation in graph.get_operations()]

    assert operations("activations") == operations(False)


@pytest.mark.parametrize(
    ("flags", "remat"),
    [
        ([], False),
        (["--remat"], True),
        (["--noremat"], False),
        (["--remat=true"], True),
        (["--remat=layers"], "layers"),
        (["--remat=activations"], "activations"),
        (["--remat", "--do_eval", "--eval_file=y"], True),
    ],
)
def test_the_flag(monkeypatch, flags, remat):
    received = []
    monkeypatch.setattr("albert_tf.pretraining.run.pretrain", received.append)
    needed = ["--input_file=x", "--albert_config_file=x", "--output_dir=x", "--do_train"]
    assert cli.main(["pretrain", *needed, *flags]) == 0
    assert [settings.remat for settings in received] == [remat]


def test_no_other_flag(capfd):
    needed = ["--input_file=x", "--albert_config_file=x", "--output_dir=x", "--do_train"]
    assert cli.main(["pretrain", *needed, "--remat=attention"]) == 2
    assert 'Choose from: "activations", "layers"' in capfd.readouterr().err


ON_JAX = """
    import jax, keras
    import numpy as np
    from albert_tf import AlbertConfig, AlbertPretrainer
    from albert_tf.model.pretrainer import pretraining_metrics, pretraining_sums
    from tests.albert_tf.model.test_pretrainer import random_batch

    config = AlbertConfig(
        vocab_size=50, embedding_size=10, hidden_size=24, num_hidden_layers=3, num_attention_heads=3,
        intermediate_size=36, max_position_embeddings=16, hidden_dropout_prob=0.2,
        attention_probs_dropout_prob=0.3,
    )
    batch = random_batch(config)

    def gradients(**flags):
        model = AlbertPretrainer(config, seed=1, **flags)

        def loss(trainable, others):
            outputs, others = model.stateless_call(trainable, others, batch, training=True)
            return pretraining_metrics(pretraining_sums(outputs, batch))["loss"], others

        step = jax.jit(jax.grad(loss, has_aux=True))
        variables = (model.trainable_variables, model.non_trainable_variables)
        trainable, others = ([variable.value for variable in kind] for kind in variables)
        for _ in range(2):
            found, others = step(trainable, others)
        return found

    kept = gradients()
    for flags in ({"remat": "activations"}, {"remat": "layers"}, {"remat": "activations", "scan_layers": True}):
        for one, other in zip(kept, gradients(**flags), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)
    assert max(abs(array).max() for array in kept) > 0.01
"""


@pytest.mark.slow
def test_gradients_on_the_jax_backend():
    pytest.importorskip("jax", reason="Keras' JAX backend needs jax")
    (result,) = run_together([["-c", textwrap.dedent(ON_JAX)]], [{"KERAS_BACKEND": "jax"}], timeout=240)
    assert result.returncode == 0, result.stderr[-3000:]


PROGRAM = """
    import json, sys
    import numpy as np
    import tensorflow as tf

    remat, replicas = json.loads(sys.argv[1]), int(sys.argv[2])
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
    strategy = tf.distribute.get_strategy()
    if replicas > 1:
        strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])

    from albert_tf import AlbertConfig, AlbertPretrainer, Lamb
    from albert_tf.model.pretrainer import pretraining_metrics
    from albert_tf.pretraining.steps import TrainStep, zero_sums
    from tests.albert_tf.model.test_pretrainer import random_batch

    config = AlbertConfig(
        vocab_size=50, embedding_size=8, hidden_size=16, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=12, hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )
    with strategy.scope():
        model = AlbertPretrainer(config, seed=1, remat=remat)
        optimizer = Lamb(0.01)
        optimizer.build(model.trainable_variables)
    batch = {**random_batch(config), "sentence_order_weights": np.ones(3, "float32")}
    dataset = tf.data.Dataset.from_tensors(batch).repeat()
    iterator = iter(strategy.distribute_datasets_from_function(lambda context: dataset))
    train_steps = TrainStep(model, optimizer, strategy)
    sums = [train_steps(iterator, tf.constant(1), zero_sums()) for _ in range(5)]
    trace = [float(pretraining_metrics(of_step)["loss"]) for of_step in sums]
    weights = [variable.numpy().ravel().tolist() for variable in model.trainable_variables]
    print(json.dumps({"trace": trace, "weights": sum(weights, [])}))
"""


def run(*arguments: str) -> dict:
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments]
    result = subprocess.run(
        command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("replicas", ["1", "2"])
def test_five_steps_on_one_device_and_on_two(replicas):
    kept = run("false", replicas)
    for remat in ("true", '"activations"'):
        recomputed = run(remat, replicas)
        assert recomputed["trace"] == pytest.approx(kept["trace"], abs=1e-5)
        assert recomputed["weights"] == pytest.approx(kept["weights"], abs=1e-5)
    assert len(set(kept["trace"])) == 5
