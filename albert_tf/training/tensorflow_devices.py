"""The devices of a tf.distribute strategy."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.flops import gpu_peak, tpu_peak
from albert_tf.training.cluster import needed_cluster, read_cluster
from albert_tf.training.device_flags import DeviceFlags, num_devices_conflict
from albert_tf.training.steps import Objective
from albert_tf.training.tensorflow_steps import TensorFlowStep
from data_prep.errors import InputError, first_line


class TensorFlowDevices:
    """`Devices` (albert_tf/training/devices.py) of a strategy; by default the one under which it is made."""

    def __init__(self, strategy: tf.distribute.Strategy | None = None):
        self.strategy = strategy = strategy or tf.distribute.get_strategy()
        self.replicas = strategy.num_replicas_in_sync
        self.is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        self.is_cpu = not (self.is_tpu or tf.config.list_physical_devices("GPU"))
        self.processes, self.is_chief = 1, True
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            resolver, cluster = strategy.cluster_resolver, strategy.cluster_resolver.cluster_spec()
            jobs = cluster.jobs
            self.processes = sum(map(cluster.num_tasks, jobs))
            self.is_chief = resolver.task_type == "chief" or ("chief" not in jobs and resolver.task_id == 0)

    def scope(self) -> contextlib.AbstractContextManager:
        return self.strategy.scope()

    def peak(self) -> float | None:
        if self.is_tpu:
            return tpu_peak(os.environ.get("TPU_ACCELERATOR_TYPE", ""))
        if self.is_cpu:
            return None
        details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
        peak = gpu_peak(details.get("device_name", ""))
        return peak * self.replicas if peak else None

    def all_values(self, value: int) -> list[int]:
        if self.processes == 1:
            return [value]
        return [int(each) for each in self._all_values(tf.constant(value, tf.int64))]

    @functools.cached_property
    def _all_values(self) -> Callable:
        @tf.function(autograph=False)
        def all_values(value):
            return self.strategy.gather(self.strategy.run(lambda: tf.reshape(value, [1])), axis=0)

        return all_values

    def batches(self, per_host: Callable[[tf.distribute.InputContext], tf.data.Dataset]) -> Iterator:
        return iter(self.strategy.distribute_datasets_from_function(per_host))

    def divide(self, make_batches: Callable[[], tf.data.Dataset], batch_size: int) -> Iterable:
        replicas = self.replicas
        each = -(-batch_size // replicas)

        def per_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
            local = replicas // context.num_input_pipelines
            first = context.input_pipeline_id * local

            def parts(batch):
                cut = {name: _parts(values, replicas, each) for name, values in batch.items()}
                return tf.data.Dataset.from_tensor_slices(
                    {name: values[first : first + local] for name, values in cut.items()}
                )

            batches = make_batches()
            divided = batches.flat_map(parts)
            if batches.cardinality() == tf.data.INFINITE_CARDINALITY:
                # Otherwise each step would ask all workers whether they have data left.
                return divided.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
            return divided

        return self.strategy.distribute_datasets_from_function(per_host)

    def optimizer_step(
        self, objective: Objective, optimizer: keras.optimizers.Optimizer, **options: Any
    ) -> TensorFlowStep:
        """Its options are those of `Gradients`."""
        return TensorFlowStep(objective, optimizer, self.strategy, **options)

    def summed(self, function: Callable, model: keras.Model) -> Callable[[Any], np.ndarray]:
        @tf.function(autograph=False)
        def all_replicas(batch):
            value = self.strategy.run(function, args=(batch,))
            return self.strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)

        return lambda batch: all_replicas(batch).numpy()

    def gathered(
        self, function: Callable, model: keras.Model
    ) -> Callable[[Iterable], Iterator[dict[str, np.ndarray]]]:
        @tf.function(autograph=False)
        def next_rows(iterator):  # of which the graph knows that batches differ in size
            outputs = self.strategy.run(function, args=(next(iterator),))
            if self.replicas == 1:
                return outputs
            return {name: self.strategy.gather(value, axis=0) for name, value in outputs.items()}

        def outputs(batches: Iterable) -> Iterator[dict[str, np.ndarray]]:
            iterator = iter(batches)
            while True:
                try:
                    rows = next_rows(iterator)
                except (StopIteration, tf.errors.OutOfRangeError):
                    return
                yield {name: value.numpy() for name, value in rows.items()}

        return outputs


def make_tensorflow_devices(settings: DeviceFlags) -> TensorFlowDevices:
    """`make_devices` for TensorFlow."""
    return TensorFlowDevices(make_strategy(settings))


def make_strategy(settings: DeviceFlags) -> tf.distribute.Strategy:
    """The tf.distribute strategy for the flags. Call it before anything else of TensorFlow.

    Args:
      settings: `auto` means several workers if TF_CONFIG lists several, all devices of this machine if there are
        several, and otherwise one device.

    Raises:
      InputError: there is no such TPU, cluster, or number of devices.
    """
    if settings.deterministic_ops:
        tf.config.experimental.enable_op_determinism()
    if settings.tpu:
        return _tpu_strategy(settings.tpu)
    kind = settings.strategy
    if kind == "auto" and (cluster := read_cluster()) and len(cluster.addresses) > 1:
        kind = "multi_worker"
    if kind == "multi_worker":
        if settings.num_devices:
            raise num_devices_conflict(settings.num_devices, "--strategy=multi_worker")
        return _multi_worker_strategy()
    if kind == "one":
        return tf.distribute.get_strategy()
    devices = _devices_of_this_machine(settings.num_devices)
    if len(devices) > 1:
        return tf.distribute.MirroredStrategy(devices)
    if kind == "mirrored" and devices[0].startswith("CPU"):
        raise InputError(
            "--strategy=mirrored needs several devices. Received one CPU and no GPU; use --num_devices=2 to "
            "divide it into two devices, or --strategy=one."
        )
    return tf.distribute.MirroredStrategy(devices) if kind == "mirrored" else tf.distribute.get_strategy()


def _parts(values: tf.Tensor, number: int, each: int) -> tf.Tensor:
    """A batch (B, ...) padded with zeros and cut into parts: (number, each, ...)."""
    padding = [[0, number * each - tf.shape(values)[0]], *([0, 0] for _ in values.shape[1:])]
    shape = tf.shape(values)[1:] if None in values.shape[1:] else values.shape[1:]
    parts = tf.reshape(tf.pad(values, padding), tf.concat([[number, each], shape], axis=0))
    return tf.ensure_shape(parts, (number, each, *values.shape[1:]))


def _devices_of_this_machine(num_devices: int | None) -> list[str]:
    gpus = len(tf.config.list_physical_devices("GPU"))
    if gpus:
        if (num_devices or 0) > gpus:
            raise InputError(
                f"--num_devices must be at most the number of GPUs. Received {num_devices}; there are {gpus}."
            )
        return [f"GPU:{number}" for number in range(num_devices or gpus)]
    if num_devices:
        cpu = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration()] * num_devices
        with contextlib.suppress(RuntimeError):  # TensorFlow has started; its devices may be enough
            tf.config.set_logical_device_configuration(cpu, parts)
    cpus = len(tf.config.list_logical_devices("CPU"))
    if (num_devices or 0) > cpus:
        raise InputError(
            f"--num_devices={num_devices} must be set before TensorFlow starts. It has started with {cpus} CPU "
            "devices; use a new process."
        )
    return [f"CPU:{number}" for number in range(num_devices or cpus)]


def _multi_worker_strategy() -> tf.distribute.Strategy:
    cluster = needed_cluster()
    number = len(cluster.addresses)
    if number > 1:
        print(f"waiting for {number} workers; this is {cluster.address}", file=sys.stderr, flush=True)
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (RuntimeError, tf.errors.OpError) as error:
        raise InputError(
            f"The worker {cluster.address} of TF_CONFIG could not join the others: {first_line(error)} Start one "
            "process for each worker, on the machines and ports listed there."
        ) from None


def _tpu_strategy(tpu: str) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu)
        if tpu != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # the resolver raises many types, from ValueError to googleapiclient's
        raise InputError(
            f"`--tpu` must name a TPU that this machine can reach. Received {tpu!r}, which failed with: "
            f"{first_line(error)} On a TPU VM use --tpu=local; without a TPU omit the flag."
        ) from None
    return tf.distribute.TPUStrategy(resolver)
