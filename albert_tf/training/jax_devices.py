"""The devices of JAX: all of this process, or those of all processes that train together."""

import contextlib
import functools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import entry_points
from typing import Any

import jax
import keras
import numpy as np
import tensorflow as tf
from jax.sharding import PartitionSpec

from albert_tf.flops import gpu_peak, tpu_device_peak
from albert_tf.training.device_flags import DeviceFlags
from albert_tf.training.jax_processes import find_place, joined
from albert_tf.training.jax_replicas import AXIS, Replicas, all_rows
from albert_tf.training.jax_steps import JaxStep
from albert_tf.training.steps import Objective
from data_prep.errors import InputError


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
        peak = None if self.is_cpu else gpu_peak(kind) or tpu_device_peak(kind)
        return peak * self.replicas if peak else None

    def all_values(self, value: int) -> list[int]:
        if self.processes == 1:
            return [value]
        local = np.array([value], "uint32")
        return np.asarray(self._gather(self._hosts.divided({"value": local}))["value"]).tolist()

    @functools.cached_property
    def _hosts(self) -> Replicas:
        """One device of each process: the same, whatever devices the processes use."""
        return Replicas(_first_of_each_process(jax.devices(), 1))

    @functools.cached_property
    def _gather(self) -> Callable:
        return self._hosts.on_replicas(all_rows, PartitionSpec(AXIS))

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


@contextlib.contextmanager
def started_jax(settings: DeviceFlags) -> Iterator[None]:
    """Within this context JAX may be used, and the process belongs to those with which it trains, if any.

    Raises:
      InputError: the other processes cannot be reached, or one of them is lost.
    """
    for kind in ("GPU", "TPU"):
        tf.config.set_visible_devices([], kind)  # TensorFlow, which reads the examples, needs none
    if settings.num_devices:
        with contextlib.suppress(RuntimeError):  # JAX has started; its devices may be enough
            jax.config.update("jax_num_cpu_devices", settings.num_devices)
    if settings.deterministic_ops:
        _set_xla_flag("xla_gpu_deterministic_ops", "true")
    if any("cuda" in plugin.name for plugin in entry_points(group="jax_plugins")):
        _set_xla_flag(
            "xla_gpu_enable_triton_gemm", "false"
        )  # cuBLAS is faster in every row of docs/performance.md
    place = find_place(settings)
    with joined(place) if place else contextlib.nullcontext():
        yield


def _set_xla_flag(name: str, value: str) -> None:
    """Sets a flag of XLA that the environment does not mention."""
    flags = os.environ.get("XLA_FLAGS", "")
    if name not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{name}={value}".strip()


def make_jax_devices(settings: DeviceFlags) -> JaxDevices:
    """`make_devices` for JAX.

    Raises:
      InputError: there are fewer devices.
    """
    devices = jax.devices()
    numbers = Counter(device.process_index for device in devices)
    if len(set(numbers.values())) > 1:
        raise InputError(
            "All processes must have the same number of devices, and the same --num_devices. They have "
            f"{', '.join(str(numbers[process]) for process in sorted(numbers))}."
        )
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
