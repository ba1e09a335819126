"""The devices to train on; no other module names a device."""

import contextlib
import sys
from collections.abc import Callable

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.memory import activation_bytes, check_fits
from albert_tf.training.cluster import needed_cluster, read_cluster
from albert_tf.training.device_flags import DeviceFlags, num_devices_conflict
from data_prep.errors import InputError, first_line

# What TensorFlow raises in a worker when another one has stopped, and when gs:// fails (`as_input_errors`).
WORKER_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)


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


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes the run's folder. With several workers, one is the chief."""
    if not has_workers(strategy):
        return True
    resolver = strategy.cluster_resolver
    has_chief = "chief" in resolver.cluster_spec().jobs
    return resolver.task_type == "chief" or (not has_chief and resolver.task_id == 0)


def check_agreement(strategy: tf.distribute.Strategy, value: int, message: str) -> None:
    """Raises InputError with `message` in every worker unless all have the same value."""
    if not has_workers(strategy):
        return

    @tf.function(autograph=False)
    def all_values(value):
        return strategy.gather(strategy.run(lambda: tf.reshape(value, [1])), axis=0)

    try:
        values = {int(value) for value in all_values(tf.constant(value, tf.int64))}
    except WORKER_LOST:
        raise InputError(
            "All workers must start together, but another one stopped. Look at its output."
        ) from None
    if len(values) > 1:
        raise InputError(message)


def check_memory(
    settings: DeviceFlags,
    config: AlbertConfig,
    strategy: tf.distribute.Strategy,
    rows: int,
    tokens: float,
    stores: bool,
) -> None:
    """Raises InputError if a batch does not fit into the CPUs' memory; accelerators report this themselves.

    Args:
      settings: the flags.
      config: the encoder's configuration.
      strategy: the devices.
      rows: number of examples that all devices compute at a time.
      tokens: length of an example.
      stores: whether activations are kept for a backward pass through the encoder.
    """
    if settings.tpu or tf.config.list_physical_devices("GPU"):
        return
    each = rows * tokens / (strategy.num_replicas_in_sync if has_workers(strategy) else 1)
    size = 2 if settings.mixed_precision else 4
    needed = activation_bytes(config, int(each), training=stores, remat=settings.remat, bytes_per_number=size)
    check_fits(needed, f"A batch of --train_batch_size, {rows:,} examples at a time,")


def has_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether several processes train together."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def divide_batches(
    strategy: tf.distribute.Strategy, make_batches: Callable[[], tf.data.Dataset], batch_size: int
):
    """Global batches for `strategy.run`: each replica has an equal part of every batch, in the batch's order.

    The batches are therefore the same on any number of hosts and replicas. Batches that are smaller than
    `batch_size`, or whose size is not a multiple of the number of replicas, are padded with zeros.

    Args:
      strategy: the replicas.
      make_batches: returns a dataset of dicts of arrays (B, ...), the same on every host.
      batch_size: the largest B.
    """
    replicas = strategy.num_replicas_in_sync
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

    return strategy.distribute_datasets_from_function(per_host)


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
