"""The devices of JAX: all of this process, or those of all processes that train together."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import keras
import numpy as np
import tensorflow as tf
from jax.sharding import PartitionSpec

from albert_tf.flops import gpu_peak, tpu_peak
from albert_tf.training.device_flags import DeviceFlags
from albert_tf.training.jax_replicas import AXIS, Replicas, all_rows
from albert_tf.training.jax_steps import JaxStep
from albert_tf.training.steps import Objective
from data_prep.errors import InputError, first_line

_LOST_AFTER = 40  # seconds without a sign of life


class JaxDevices(Replicas):
    """`Devices` (albert_tf/training/devices.py) of JAX.

    A function for replicas runs in each of them at once (`jax.shard_map`), on a copy of the variables.

    Args:
      devices: of all processes, in their order.
    """

    def __init__(self, devices: list[jax.Device]):
        super().__init__(devices)
        self.is_chief = jax.process_index() == 0
        self.is_cpu = devices[0].platform == "cpu"

    def scope(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()

    def peak(self) -> float | None:
        kind = self.mesh.devices[0].device_kind
        peak = None if self.is_cpu else gpu_peak(kind) or tpu_peak(kind)
        return peak * self.replicas if peak else None

    def all_values(self, value: int) -> list[int]:
        if self.processes == 1:
            return [value]
        local = np.full(self.local_replicas, value, "int32")
        values = self._gather(self.divided({"value": local}))["value"]
        return np.asarray(values).tolist()

    @functools.cached_property
    def _gather(self) -> Callable:
        return self.on_replicas(all_rows, PartitionSpec(AXIS))

    def batches(self, per_host: Callable[[tf.distribute.InputContext], tf.data.Dataset]) -> Iterator:
        # As if each process had one replica, whose batch is then divided.
        context = tf.distribute.InputContext(self.processes, jax.process_index(), self.processes)
        return map(self.divided, per_host(context).as_numpy_iterator())

    def divide(self, make_batches: Callable[[], tf.data.Dataset], batch_size: int) -> Iterable:
        each = -(-batch_size // self.replicas)
        rows, local = each * self.replicas, each * self.local_replicas
        first = local * jax.process_index()

        def share(values: np.ndarray) -> np.ndarray:
            padding = [(0, rows - len(values)), *[(0, 0)] * (values.ndim - 1)]
            return np.pad(values, padding)[first : first + local]

        for batch in make_batches().as_numpy_iterator():
            yield self.divided({name: share(values) for name, values in batch.items()})

    def optimizer_step(
        self, objective: Objective, optimizer: keras.optimizers.Optimizer, **options: Any
    ) -> JaxStep:
        return JaxStep(objective, optimizer, self, **options)

    def summed(self, function: Callable, model: keras.Model) -> Callable[[Any], np.ndarray]:
        compiled = self._of_model(lambda batch: jax.lax.psum(function(batch), AXIS), model)
        return lambda batch: np.asarray(compiled(batch))

    def gathered(
        self, function: Callable, model: keras.Model
    ) -> Callable[[Iterable], Iterator[dict[str, np.ndarray]]]:
        compiled = self._of_model(lambda batch: all_rows(function(batch)), model)

        def outputs(batches: Iterable) -> Iterator[dict[str, np.ndarray]]:
            for batch in batches.as_numpy_iterator() if isinstance(batches, tf.data.Dataset) else batches:
                yield jax.tree.map(np.asarray, compiled(batch))

        return outputs

    def _of_model(self, function: Callable, model: keras.Model) -> Callable:
        """A function of a batch that reads the variables of a model, which are arguments of what is compiled."""

        def with_values(values: list, batch):
            with keras.StatelessScope(list(zip(model.variables, values, strict=True))):
                return function(batch)

        compiled = self.on_replicas(with_values, PartitionSpec(), PartitionSpec(AXIS))
        return lambda batch: compiled(self.copied(model.variables), batch)


def start_jax(settings: DeviceFlags) -> None:
    """Joins the other processes, if there are several. Call it before anything else of JAX or TensorFlow.

    Raises:
      InputError: the other processes cannot be reached.
    """
    for kind in ("GPU", "TPU"):
        tf.config.set_visible_devices([], kind)  # TensorFlow, which reads the examples, needs none
    if settings.num_devices:
        jax.config.update("jax_num_cpu_devices", settings.num_devices)
    if settings.deterministic_ops:
        os.environ["XLA_FLAGS"] = (
            f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_deterministic_ops=true".strip()
        )
    if settings.coordinator_address or _has_cluster():
        where = settings.coordinator_address or "that the cluster names"
        print(f"waiting for the processes at {where}", file=sys.stderr, flush=True)
        try:
            jax.distributed.initialize(
                settings.coordinator_address,
                settings.num_processes,
                settings.process_id,
                heartbeat_timeout_seconds=_LOST_AFTER,
            )
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"The process could not join the others at {where}: {first_line(error)} Start all processes, each "
                "with its own --process_id."
            ) from None


def _has_cluster() -> bool:
    """Whether Slurm or Cloud TPU has started several processes, which JAX then finds by itself."""
    tasks = os.environ.get("SLURM_NTASKS", "1")
    return (tasks.isdecimal() and int(tasks) > 1) or "," in os.environ.get("TPU_WORKER_HOSTNAMES", "")


def make_jax_devices(settings: DeviceFlags) -> JaxDevices:
    """`make_devices` for JAX.

    Raises:
      InputError: there are fewer devices.
    """
    devices = jax.devices()
    if (settings.num_devices or 0) > jax.local_device_count():
        raise InputError(
            f"--num_devices must be at most the number of devices. Received {settings.num_devices}; JAX finds "
            f"{jax.local_device_count()}."
        )
    return JaxDevices(_first_of_each_process(devices, settings.num_devices or len(devices)))


def _first_of_each_process(devices: list[jax.Device], number: int) -> list[jax.Device]:
    processes = sorted({device.process_index for device in devices})
    return [
        device
        for process in processes
        for device in [each for each in devices if each.process_index == process][:number]
    ]
