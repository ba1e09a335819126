"""The training step of `albert pretrain` on a random batch, to measure its time, and that of Keras `fit` on JAX.

The program `python -m albert_tf.lab.training_step REQUEST` is a peer process (peer_processes.py) that takes steps
for every line of standard input; REQUEST is a JSON `StepRequest`.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig, Remat
from albert_tf.lab.peer_processes import open_replies, serve_steps
from albert_tf.training.cluster import Cluster, read_cluster
from data_prep.errors import needs_extra

_LEARNING_RATE = 1e-4
MASK = 4  # the id of [MASK] in ALBERT's vocabularies


@dataclass(frozen=True)
class StepRequest:
    """A model and a batch.

    Attributes:
      config: fields of `AlbertConfig`.
      batch_size: examples.
      max_seq_length: T; 0.15 T tokens are predicted.
      dtype: float32 or bfloat16.
    """

    config: dict[str, Any]
    batch_size: int
    max_seq_length: int
    dtype: str


def random_training_batch(B: int, T: int, P: int, V: int) -> dict[str, np.ndarray]:
    """Random tokens without padding, with P predictions in every example.

    As in text, a few of the pieces are frequent, and most of what is predicted is [MASK]: the time of the
    embeddings' gradient depends on it.
    """
    rng = np.random.default_rng(0)
    positions = np.array([np.sort(rng.choice(T, P, replace=False)) for _ in range(B)], "int32")
    shares = 1 / np.arange(3, V - 2)
    input_ids = rng.choice(np.arange(5, V), (B, T), p=shares / shares.sum())
    masked = np.where(rng.random((B, P)) < 0.8, MASK, np.take_along_axis(input_ids, positions, 1))
    np.put_along_axis(input_ids, positions, masked, 1)
    return {
        "input_ids": input_ids.astype("int32"),
        "input_mask": np.ones((B, T), "int32"),
        "token_type_ids": np.repeat((np.arange(T) > T // 2)[None].astype("int32"), B, 0),
        "masked_lm_positions": positions,
        "masked_lm_ids": rng.integers(5, V, (B, P)).astype("int32"),
        "masked_lm_weights": np.ones((B, P), "float32"),
        "sentence_order": rng.integers(0, 2, B).astype("int32"),
        "sentence_order_weights": np.ones(B, "float32"),
    }


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
    import keras
    import tensorflow as tf

    from albert_tf.model.pretrainer import AlbertPretrainer, pretraining_metrics
    from albert_tf.optimizers import Lamb
    from albert_tf.pretraining.steps import TrainStep

    policy = "mixed_bfloat16" if dtype == "bfloat16" else "float32"
    strategy = tf.distribute.get_strategy()
    model = AlbertPretrainer(config, seed=1, remat=remat, dtype=keras.DTypePolicy(policy))
    optimizer = Lamb(_LEARNING_RATE)
    optimizer.build(model.trainable_variables)
    train = TrainStep(
        model,
        optimizer,
        strategy,
        accumulation_steps=accumulation_steps,
        parallel_parts=parallel_parts,
        jit_compile=jit_compile,
    )
    dataset, one = tf.data.Dataset.from_tensors(data).repeat(), tf.constant(1)
    batches = iter(strategy.distribute_datasets_from_function(lambda _: dataset))
    return lambda: float(pretraining_metrics(train(batches, one, train.zero_sums()))["loss"])


def pure_training_step(model, optimizer) -> tuple[Callable, tuple[list, list, list]]:
    """The step of `AlbertPretrainer` under Keras `fit` on JAX, and the values that it starts from.

    Args:
      model: an `AlbertPretrainer`.
      optimizer: the optimizer, which this function builds; clipping, if any, is its own.

    Returns:
      A function of (weights, other variables, optimizer variables, batch) that returns these three after the step
      and the loss; and the first three. Compile it with `jax.jit(step, donate_argnums=(0, 1, 2))`.
    """
    with needs_extra("The step on JAX", "jax", "jax"):
        import jax

    from albert_tf.model.pretrainer import pretraining_metrics, pretraining_sums

    optimizer.build(model.trainable_variables)

    def loss(weights, others, batch):
        outputs, others = model.stateless_call(weights, others, batch, training=True)
        return pretraining_metrics(pretraining_sums(outputs, batch))["loss"], others

    def step(weights, others, moments, batch):
        (value, others), gradients = jax.value_and_grad(loss, has_aux=True)(weights, others, batch)
        weights, moments = optimizer.stateless_apply(moments, gradients, weights)
        return weights, others, moments, value

    variables: tuple[Any, ...] = (
        model.trainable_variables,
        model.non_trainable_variables,
        optimizer.variables,
    )
    weights, others, moments = ([variable.value for variable in kind] for kind in variables)
    return step, (weights, others, moments)


def main(request: StepRequest) -> None:
    """Takes steps on request, alone or as one of the workers of TF_CONFIG."""
    replies = open_replies()
    cluster = read_cluster()
    if cluster:
        _use_own_cores(cluster)
    import tensorflow as tf

    from albert_tf.pretraining.devices import split_batches_over_cores

    config = AlbertConfig.from_dict(request.config)
    T = request.max_seq_length
    data = random_training_batch(request.batch_size, T, max(1, round(0.15 * T)), config.vocab_size)
    parts = 1 if cluster else split_batches_over_cores([(request.batch_size, T)], config.hidden_size)
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if cluster else tf.distribute.get_strategy()
    with strategy.scope():
        step = make_training_step(
            config,
            data,
            request.dtype,
            parallel_parts=parts,
            jit_compile=bool(tf.config.list_physical_devices("GPU")),
        )
    replicas = strategy.num_replicas_in_sync
    serve_steps(replies, lambda _: {"loss": step(), "replicas": replicas})


def _use_own_cores(cluster: Cluster) -> None:
    """Divides the cores evenly among the workers on this machine; those that are left over stay idle."""
    cores, workers = sorted(os.sched_getaffinity(0)), len(cluster.addresses)
    each = len(cores) // workers
    if each:
        first = cluster.task_index * each
        os.sched_setaffinity(0, cores[first : first + each])


if __name__ == "__main__":
    main(StepRequest(**json.loads(sys.argv[1])))
