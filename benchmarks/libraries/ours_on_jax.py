"""Training steps and inference with this library as Keras on JAX, on a GPU or TPU; needs no TensorFlow."""

import importlib.metadata
import os
from collections.abc import Callable
from typing import Any

from albert_tf.config import AlbertConfig
from benchmarks.batches import training_batch
from benchmarks.processes import peak_megabytes
from data_prep.errors import needs_extra

# So that cuBLAS multiplies, which adds biases and computes gelu in the same kernel; Triton's products do not.
_XLA_FLAGS = "--xla_gpu_enable_triton_gemm=false"


def training(
    config: dict[str, Any], dtype: str, B: int, T: int, P: int, remat: str | bool = False
) -> Callable[[int], dict]:
    """The step of Keras `fit` with AdamW and clipping, for both heads."""
    jax = _start()
    import keras

    from albert_tf.model.pretrainer import AlbertPretrainer
    from albert_tf.optimizers import AdamW

    batch = jax.device_put(training_batch(B, T, P, config["vocab_size"]))
    policy = keras.DTypePolicy("mixed_bfloat16" if dtype == "bfloat16" else "float32")
    model = AlbertPretrainer(AlbertConfig.from_dict(config), seed=1, remat=remat, dtype=policy)
    step, state = pure_training_step(model, AdamW(1e-4, global_clipnorm=1.0))
    step = jax.jit(step, donate_argnums=(0, 1, 2))
    last = [*state, None]

    def start() -> None:
        last[:] = step(*last[:3], batch)

    return _turns(jax, start, last)


def forward(config: dict[str, Any], dtype: str, B: int, T: int, P: int) -> Callable[[int], dict]:
    """The encoder on a batch of training."""
    jax = _start()
    from albert_tf.model.encoder import AlbertEncoder

    batch = jax.device_put(training_batch(B, T, P, config["vocab_size"]))
    encoder = AlbertEncoder(AlbertConfig.from_dict(config), seed=1, dtype=dtype)
    variables = (encoder.trainable_variables, encoder.non_trainable_variables)
    weights, others = ([variable.value for variable in kind] for kind in variables)
    inputs = {name: batch[name] for name in encoder.input_names}
    compiled = jax.jit(lambda weights, others, x: encoder.stateless_call(weights, others, x)[0])
    last: list = [None]

    def start() -> None:
        last[:] = [compiled(weights, others, inputs)]

    return _turns(jax, start, last)


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


def _start():
    """JAX, as the backend of Keras."""
    os.environ["KERAS_BACKEND"] = "jax"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # the other libraries need memory, too
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.95"
    os.environ.setdefault("XLA_FLAGS", _XLA_FLAGS)
    with needs_extra("Keras on JAX", "jax", "jax"):
        import jax

    return jax


def _turns(jax, start: Callable[[], None], last: list) -> Callable[[int], dict]:
    """Turns of several steps, which are started without waiting for each other."""
    device = jax.devices()[0]
    versions = {package: importlib.metadata.version(package) for package in ("jax", "jaxlib", "keras")}

    def turn(steps: int) -> dict:
        for _ in range(steps):
            start()
        jax.block_until_ready(last)
        statistics = device.memory_stats()  # none on CPUs
        megabytes = statistics["peak_bytes_in_use"] / 2**20 if statistics else peak_megabytes()
        return {
            "steps": steps,
            "device": device.device_kind,
            "versions": versions,
            "peak_megabytes": megabytes,
        }

    return turn
