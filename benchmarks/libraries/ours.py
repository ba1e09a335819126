"""Training with this library on TensorFlow: the steps of `albert pretrain`, `albert finetune` and Keras' `fit`."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig, Remat
from albert_tf.training.cluster import Cluster, read_cluster
from benchmarks.batches import training_batch
from benchmarks.task_examples import RATE, STEPS, WARMUP, Train, train_in_turns

_SEED = 0


def training(
    config: dict[str, Any],
    dtype: str,
    B: int,
    T: int,
    P: int,
    remat: Remat = False,
    accumulation_steps: int = 1,
) -> Callable[[], dict]:
    """The step of `albert pretrain`. With TF_CONFIG, this is one of its workers, on its share of the cores."""
    cluster = read_cluster()
    if cluster:
        _use_own_cores(cluster)
    import tensorflow as tf

    from albert_tf.pretraining.devices import split_batches_over_cores

    model_config = AlbertConfig.from_dict(config)
    shapes = [(B // accumulation_steps, T)]
    parts = 1 if cluster else split_batches_over_cores(shapes, model_config.hidden_size)
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if cluster else tf.distribute.get_strategy()
    with strategy.scope():
        step = make_training_step(
            model_config,
            training_batch(B, T, P, model_config.vocab_size),
            dtype,
            remat=remat,
            accumulation_steps=accumulation_steps,
            parallel_parts=parts,
            jit_compile=bool(tf.config.list_physical_devices("GPU")),
        )
    return lambda: {"loss": step(), "replicas": strategy.num_replicas_in_sync}


def make_training_step(
    config: AlbertConfig,
    data: dict[str, np.ndarray],
    dtype: str,
    *,
    remat: Remat = False,
    accumulation_steps: int = 1,
    parallel_parts: int = 1,
    jit_compile: bool = False,
) -> Callable[[], float]:
    """Builds a function that takes one step with LAMB and gradient clipping and returns the loss.

    Workers build it in their strategy's scope and take each step together.

    Args:
      config: the model.
      data: the batch, the same in every step and for every worker.
      dtype: float32 or bfloat16.
      remat: as `--remat`.
      accumulation_steps: as `--gradient_accumulation_steps`.
      parallel_parts: from `split_batches_over_cores`, which must be called before any other use of TensorFlow.
      jit_compile: as `--jit_compile`.
    """
    import tensorflow as tf

    from albert_tf.model.pretrainer import AlbertPretrainer, pretraining_metrics
    from albert_tf.optimizers import Lamb
    from albert_tf.pretraining.devices import formula_compiler
    from albert_tf.pretraining.objective import PretrainingObjective
    from albert_tf.training.tensorflow_devices import TensorFlowDevices

    devices, compiler = TensorFlowDevices(), formula_compiler()
    model = AlbertPretrainer(config, seed=1, remat=remat, dtype=_policy(dtype))
    optimizer = Lamb(1e-4)
    optimizer.build(model.trainable_variables)
    train = devices.optimizer_step(
        PretrainingObjective(model),
        optimizer,
        accumulation_steps=accumulation_steps,
        parallel_parts=parallel_parts,
        jit_compile=jit_compile,
        formula_compiler=None if jit_compile else compiler,
    )
    dataset = tf.data.Dataset.from_tensors(data).repeat()
    batches = devices.batches(lambda _: dataset)
    return lambda: float(pretraining_metrics(train(batches, 1, train.zero_sums()))["loss"])


def matrix_product(config: dict[str, Any], dtype: str, **_) -> Callable[[], dict]:
    """Measures the machine's peak: H -> F on 2048 rows, ten times; replies with the number of FLOPs."""
    import tensorflow as tf

    H, F = config["hidden_size"], config["intermediate_size"]
    x = tf.cast(tf.random.normal((2048, H)), dtype)
    w = tf.cast(tf.random.normal((H, F)), dtype)

    @tf.function
    def products():
        for _ in tf.range(10):
            y = tf.matmul(x, w)
        return y

    def turn() -> dict:
        products()
        return {"flops": 10 * 2 * 2048 * H * F}

    return turn


def finetuning(pad: bool = False, **setup) -> Callable[..., dict]:
    """The model, optimizer, batches and training step of `albert finetune`; `pad` is `--pad_to_max_length`."""

    def make(config, dtype, B, length) -> Train:
        from albert_tf.tasks.objective import TaskObjective
        from albert_tf.training.tensorflow_devices import TensorFlowDevices

        model, optimizer = _classifier(config, dtype)
        devices = TensorFlowDevices()
        step = devices.optimizer_step(TaskObjective(model), optimizer)

        def train(examples, count, _):
            batches, shapes = task_batches(examples, B, length if pad else None, count)
            divided = iter(devices.divide(lambda: batches, B))
            sums = step(divided, count, step.zero_sums())
            return float(sums["loss"] / sums["loss_weight"]), shapes

        return train

    return train_in_turns(make, **setup)


def finetuning_with_fit(**setup) -> Callable[..., dict]:
    """The same model, optimizer and batches through Keras' `fit`."""

    def make(config, dtype, B, length) -> Train:
        model, optimizer = _classifier(config, dtype, clip_norm=1.0)
        model.compile(optimizer=optimizer, jit_compile=False)

        def train(examples, count, _):
            batches, shapes = task_batches(examples, B, None, count)
            return model.fit(batches, shuffle=False, verbose=0).history["loss"][0], shapes

        return train

    return train_in_turns(make, **setup)


def _classifier(config: AlbertConfig, dtype: str, clip_norm: float | None = None):
    from albert_tf import AdamW, AlbertEncoder, TextClassifier, WarmupPolynomialDecay

    encoder = AlbertEncoder(config, seed=_SEED, dtype=_policy(dtype))
    model = TextClassifier(encoder, ("0", "1"), seed=_SEED)
    optimizer = AdamW(WarmupPolynomialDecay(RATE, STEPS, WARMUP), global_clipnorm=clip_norm)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def task_batches(examples: list[dict[str, np.ndarray]], B: int, length: int | None, count: int):
    """The batches that `albert finetune` makes, and their shapes."""
    from albert_tf.tasks.task_batches import BatchOrder, bucketed_batches

    order = BatchOrder(_SEED, by_length=length is None, num_epochs=None)
    batches = bucketed_batches(examples, B, order, fill_remainder=True, pad_to=length).take(count)
    return batches, [batch["input_ids"].shape for batch in batches.as_numpy_iterator()]


def _policy(dtype: str):
    import keras

    return keras.DTypePolicy("mixed_bfloat16" if dtype == "bfloat16" else "float32")


def _use_own_cores(cluster: Cluster) -> None:
    """Divides the cores evenly among the workers on this machine; those that are left over stay idle."""
    cores, workers = sorted(os.sched_getaffinity(0)), len(cluster.addresses)
    each = len(cores) // workers
    if each:
        first = cluster.task_index * each
        os.sched_setaffinity(0, cores[first : first + each])
