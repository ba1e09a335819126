"""The devices that share every batch; no other module names a device."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.memory import activation_bytes, check_fits
from albert_tf.training.device_flags import DeviceFlags
from albert_tf.training.steps import Objective, OptimizerStep
from data_prep.errors import InputError

# What TensorFlow raises in a worker when another one has stopped, and when gs:// fails (`as_input_errors`).
WORKER_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)


class Devices(Protocol):
    """What training needs of its devices, on either backend.

    A replica is a device with a copy of the model. A function for replicas gets its share of a batch, and computes
    with `keras.ops`.

    Attributes:
      replicas: the number of replicas, of all processes together.
      processes: the number of processes that train together.
      is_chief: whether this process writes the run's folder.
      is_cpu: whether the replicas compute on CPUs.
    """

    replicas: int
    processes: int
    is_chief: bool
    is_cpu: bool

    def scope(self) -> contextlib.AbstractContextManager:
        """The context in which models and optimizers are created and changed."""

    def peak(self) -> float | None:
        """Peak FLOP/s of all replicas together by the makers' tables (`albert_tf.flops`), None if unknown."""

    def all_values(self, value: int) -> list[int]:
        """An integer of each process, in all of them. All processes must call this together."""

    def batches(self, per_host: Callable[[tf.distribute.InputContext], tf.data.Dataset]) -> Iterator:
        """Endless global batches from datasets of batches for one replica."""

    def divide(self, make_batches: Callable[[], tf.data.Dataset], batch_size: int) -> Iterable:
        """Global batches of which each replica has an equal part, in the batch's order.

        The batches are therefore the same on any number of hosts and replicas. Batches that are smaller than
        `batch_size`, or whose size is not a multiple of the number of replicas, are padded with zeros.

        Args:
          make_batches: returns a dataset of dicts of arrays (B, ...), the same on every host.
          batch_size: the largest B.
        """

    def optimizer_step(
        self, objective: Objective, optimizer: keras.optimizers.Optimizer, **options: Any
    ) -> OptimizerStep:
        """The training step.

        Args:
          objective: of a model that was created under `scope`, as was the optimizer.
          optimizer: built for the model's trainable variables.
          **options: `accumulation_steps`, the micro-batches into which a replica's share is cut and which are
            computed in turn, to save memory. Others are TensorFlow's.
        """

    def summed(self, function: Callable, model: keras.Model) -> Callable[[Any], np.ndarray]:
        """A function of global batches: the sum over all replicas of what `function` returns for their shares.

        Args:
          function: share of a batch -> a float32 array; reads the variables of `model` alone.
          model: created under `scope`.
        """

    def gathered(
        self, function: Callable, model: keras.Model
    ) -> Callable[[Iterable], Iterator[dict[str, np.ndarray]]]:
        """A function of global batches: what `function` returns for each, in the order of its rows.

        Args:
          function: share of a batch -> a dict of arrays with as many rows; reads the variables of `model` alone.
          model: created under `scope`.
        """


@contextlib.contextmanager
def started_backend(settings: DeviceFlags) -> Iterator[None]:
    """Within this context the backend may be used. Enter it before anything else of JAX or TensorFlow.

    Raises:
      InputError: Keras has started with another backend; or with JAX, other processes cannot be reached, or one
        of them is lost.
    """
    if keras.backend.backend() != settings.chosen_backend:
        raise InputError(
            f"--backend={settings.chosen_backend} must be chosen before Keras starts. It has started with "
            f"{keras.backend.backend()}; set the environment variable KERAS_BACKEND."
        )
    if not settings.uses_jax:
        yield
        return
    from albert_tf.training.jax_devices import started_jax

    with started_jax(settings):
        yield


def make_devices(settings: DeviceFlags) -> Devices:
    """The devices for the flags, within `started_backend`. Call it before anything else of TensorFlow.

    Raises:
      InputError: there is no such TPU, cluster, or number of devices.
    """
    if settings.uses_jax:
        from albert_tf.training.jax_devices import make_jax_devices

        return make_jax_devices(settings)
    from albert_tf.training.tensorflow_devices import make_tensorflow_devices

    return make_tensorflow_devices(settings)


def check_agreement(devices: Devices, value: int, message: str) -> None:
    """Raises InputError with `message` in every process unless all have the same value. All must call it."""
    try:
        values = set(devices.all_values(value))
    except WORKER_LOST:
        raise InputError(
            "All workers must start together, but another one stopped. Look at its output."
        ) from None
    if len(values) > 1:
        raise InputError(message)


def check_memory(
    settings: DeviceFlags, config: AlbertConfig, devices: Devices, rows: int, tokens: float, stores: bool
) -> None:
    """Raises InputError if a batch does not fit into the CPUs' memory; accelerators report this themselves.

    Args:
      settings: the flags.
      config: the encoder's configuration.
      devices: the devices.
      rows: number of examples that all devices compute at a time.
      tokens: length of an example.
      stores: whether activations are kept for a backward pass through the encoder.
    """
    if not devices.is_cpu:
        return
    each = rows * tokens / devices.processes
    size = 2 if settings.mixed_precision else 4
    needed = activation_bytes(config, int(each), training=stores, remat=settings.remat, bytes_per_number=size)
    check_fits(needed, f"A batch of --train_batch_size, {rows:,} examples at a time,")
