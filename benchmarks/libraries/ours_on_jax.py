"""Training steps and inference with this library on JAX, on a GPU or TPU; needs no TensorFlow."""

import functools
import importlib.metadata
import itertools
import os
from collections.abc import Callable
from typing import Any

from albert_tf.config import AlbertConfig, Remat
from benchmarks.batches import training_batch
from benchmarks.processes import peak_megabytes
from data_prep.errors import needs_extra

# So that cuBLAS multiplies, which adds biases and computes gelu in the same kernel; Triton's products do not.
_XLA_FLAGS = "--xla_gpu_enable_triton_gemm=false"


def training(
    config: dict[str, Any], dtype: str, B: int, T: int, P: int, remat: Remat = False
) -> Callable[[int], dict]:
    """The step of `albert pretrain --backend=jax` on one device, with AdamW, for both heads."""
    jax = _start()
    from albert_tf.pretraining.objective import PretrainingObjective
    from albert_tf.training.jax_replicas import Replicas
    from albert_tf.training.jax_steps import JaxStep

    model, optimizer = _pretrainer_and_adamw(config, dtype, remat)
    replicas = Replicas(jax.devices()[:1])
    batches = itertools.repeat(replicas.divided(training_batch(B, T, P, config["vocab_size"])))
    step = JaxStep(PretrainingObjective(model), optimizer, replicas)
    return _turns(jax, lambda steps: step(batches, steps, step.zero_sums()))


def keras_fit(
    config: dict[str, Any], dtype: str, B: int, T: int, P: int, remat: Remat = False
) -> Callable[[int], dict]:
    """The step of Keras `fit` with AdamW, which clips, for both heads."""
    jax = _start()
    from albert_tf.model.pretrainer import pretraining_metrics, pretraining_sums

    batch = jax.device_put(training_batch(B, T, P, config["vocab_size"]))
    model, optimizer = _pretrainer_and_adamw(config, dtype, remat, global_clipnorm=1.0)
    kinds: list = [model.trainable_variables, model.non_trainable_variables, optimizer.variables]
    state = [[variable.value for variable in kind] for kind in kinds]

    def loss(weights, others, batch):
        outputs, others = model.stateless_call(weights, others, batch, training=True)
        return pretraining_metrics(pretraining_sums(outputs, batch))["loss"], others

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state, batch):
        weights, others, moments = state
        (value, others), gradients = jax.value_and_grad(loss, has_aux=True)(weights, others, batch)
        weights, moments = optimizer.stateless_apply(moments, gradients, weights)
        return [weights, others, moments], value

    def take(steps: int):
        for _ in range(steps):
            state[:], last = step(state, batch)
        return last

    return _turns(jax, take)


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

    def encode(steps: int):
        for _ in range(steps):
            last = compiled(weights, others, inputs)
        return last

    return _turns(jax, encode)


def _pretrainer_and_adamw(config: dict[str, Any], dtype: str, remat: Remat, **options):
    import keras

    from albert_tf.model.pretrainer import AlbertPretrainer
    from albert_tf.optimizers import AdamW

    policy = keras.DTypePolicy("mixed_bfloat16" if dtype == "bfloat16" else "float32")
    model = AlbertPretrainer(AlbertConfig.from_dict(config), seed=1, remat=remat, dtype=policy)
    optimizer = AdamW(1e-4, **options)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def _start():
    """JAX, as the backend of Keras."""
    os.environ["KERAS_BACKEND"] = "jax"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # the other libraries need memory, too
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.95"
    os.environ.setdefault("XLA_FLAGS", _XLA_FLAGS)
    with needs_extra("Keras on JAX", "jax", "jax"):
        import jax

    return jax


def _turns(jax, take: Callable[[int], Any]) -> Callable[[int], dict]:
    """Turns of several steps, which `take` starts without waiting for each other; it returns the last result."""
    device = jax.devices()[0]
    versions = {package: importlib.metadata.version(package) for package in ("jax", "jaxlib", "keras")}

    def turn(steps: int) -> dict:
        jax.block_until_ready(take(steps))
        statistics = device.memory_stats()  # none on CPUs
        megabytes = statistics["peak_bytes_in_use"] / 2**20 if statistics else peak_megabytes()
        return {
            "steps": steps,
            "device": device.device_kind,
            "versions": versions,
            "peak_megabytes": megabytes,
        }

    return turn
