"""Which devices to train on. The only place that names a device."""

import contextlib
import json
import os
from dataclasses import dataclass

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.settings import PretrainingSettings


def make_strategy(settings: PretrainingSettings) -> tf.distribute.Strategy:
    """The tf.distribute strategy that the flags ask for; the first thing that TensorFlow is asked to do.

    Args:
      settings: for `tpu`, `strategy` and `num_devices`. `auto` is several workers if TF_CONFIG names
        several, all devices of this machine if there are several, and otherwise one device.

    Raises:
      InputError: there is no such TPU, cluster, or number of devices.
    """
    if settings.tpu:
        return _tpu_strategy(settings.tpu)
    kind = settings.strategy
    if kind == "multi_worker" or (kind == "auto" and _several_workers()):
        return _multi_worker_strategy()
    if kind == "one":
        return tf.distribute.get_strategy()
    devices = _devices_of_this_machine(settings.num_devices)
    if len(devices) > 1:
        return tf.distribute.MirroredStrategy(devices)
    if kind == "mirrored" and devices[0].startswith("CPU"):
        raise InputError(
            "--strategy=mirrored needs several devices. Received one CPU and no GPU; --num_devices=2 makes two "
            "devices of it, --strategy=one trains on it as it is."
        )
    return tf.distribute.MirroredStrategy(devices) if kind == "mirrored" else tf.distribute.get_strategy()


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes the run's folder; all do what it takes together with the others."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.task_type:
        return True
    has_chief = "chief" in resolver.cluster_spec().jobs
    return resolver.task_type == "chief" or (not has_chief and resolver.task_id == 0)


def compiles_by_default(strategy: tf.distribute.Strategy) -> bool:
    """Whether XLA makes the step faster: it does on GPUs. TPUs always use it, and CPUs are slower with it."""
    return all("GPU" in device for device in strategy.extended.worker_devices)


def check_batch(settings: PretrainingSettings, strategy: tf.distribute.Strategy) -> None:
    """Raises InputError where the devices cannot share a training batch evenly."""
    replicas, parts = strategy.num_replicas_in_sync, settings.gradient_accumulation_steps
    if settings.train_batch_size % (replicas * parts):
        below = settings.train_batch_size // (replicas * parts) * replicas * parts
        raise InputError(
            "--train_batch_size must be divisible by the number of devices times "
            f"--gradient_accumulation_steps. Received {settings.train_batch_size}, with {replicas} devices and "
            f"{parts} steps; {below or below + replicas * parts} would do."
        )


def check_agreement(strategy: tf.distribute.Strategy, value: int, message: str) -> None:
    """Raises InputError with `message` in every worker if not all have the same value."""
    if strategy.cluster_resolver is None or len(_workers(strategy)) < 2:
        return

    @tf.function
    def all_values(value):
        return strategy.gather(strategy.run(lambda: tf.reshape(value, [1])), axis=0)

    values = {int(value) for value in all_values(tf.constant(value, tf.int64))}
    if len(values) > 1:
        raise InputError(message)


def _workers(strategy: tf.distribute.Strategy) -> list[str]:
    jobs = strategy.cluster_resolver.cluster_spec().as_dict()
    return [*jobs.get("chief", []), *jobs.get("worker", [])]


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
        with contextlib.suppress(RuntimeError):  # TensorFlow runs already; what there is now may be enough
            tf.config.set_logical_device_configuration(cpu, parts)
    cpus = len(tf.config.list_logical_devices("CPU"))
    if (num_devices or 0) > cpus:
        raise InputError(
            f"--num_devices={num_devices} must be asked for before TensorFlow starts. It runs with {cpus} CPU "
            "devices already; use a new process."
        )
    return [f"CPU:{number}" for number in range(num_devices or cpus)]


@dataclass(frozen=True)
class _Cluster:
    """What TF_CONFIG says: who there is, and who this process is."""

    jobs: dict[str, list[str]]
    task_type: str
    task_index: int


def _several_workers() -> bool:
    return bool(os.environ.get("TF_CONFIG", "").strip()) and len(sum(_read_cluster().jobs.values(), [])) > 1


def _read_cluster() -> _Cluster:
    example = (
        'for instance {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}, '
        '"task": {"type": "worker", "index": 0}}, with another index on every machine'
    )
    text = os.environ.get("TF_CONFIG", "").strip()
    if not text:
        raise InputError(
            "--strategy=multi_worker needs the environment variable TF_CONFIG. Received none; set it to JSON, "
            f"{example}."
        )
    try:
        parsed = json.loads(text)
        task = parsed["task"]
        cluster = _Cluster(parsed["cluster"], task["type"], task["index"])
        workers = cluster.jobs[cluster.task_type]
        others = set(cluster.jobs) - {"worker", "chief"}
        if others:
            raise ValueError(f"it has a {min(others)!r}, where only workers and a chief train")
        if type(cluster.task_index) is not int or not 0 <= cluster.task_index < len(workers):
            raise ValueError(
                f"the task's index is {cluster.task_index!r}, where there are {len(workers)} of type "
                f"{cluster.task_type!r}"
            )
        for address in sum(cluster.jobs.values(), []):
            if not address.rpartition(":")[2].isdigit():
                raise ValueError(f"{address!r} is not HOST:PORT")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = {KeyError: f"{error} is missing", TypeError: "a part of it has the wrong type"}
        raise InputError(
            f"TF_CONFIG must be JSON that names the workers and which of them this is, {example}. Received "
            f"{text}: {reason.get(type(error), error)}."
        ) from None
    return cluster


def _multi_worker_strategy() -> tf.distribute.Strategy:
    cluster = _read_cluster()
    address = cluster.jobs[cluster.task_type][cluster.task_index]
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (RuntimeError, tf.errors.OpError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"The worker {address} of TF_CONFIG could not join the others: {reason} Start one process for each "
            "worker, on the machines and ports that it names."
        ) from None


def _tpu_strategy(tpu: str) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu)
        if tpu != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # the resolver raises anything from ValueError to googleapiclient's own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"`--tpu` must name a TPU that this machine can reach. Received {tpu!r}, which failed with: "
            f"{reason} On a TPU VM use --tpu=local; without a TPU leave the flag out."
        ) from None
    return tf.distribute.TPUStrategy(resolver)
