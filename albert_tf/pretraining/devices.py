"""How a pretraining run uses its devices: XLA, steps per call, and how a batch is divided."""

import tensorflow as tf

from albert_tf.pretraining.settings import PretrainingSettings
from albert_tf.training.strategy import has_workers
from data_prep.errors import InputError


def compiles(settings: PretrainingSettings, strategy: tf.distribute.Strategy) -> bool:
    """Whether the step asks for XLA: by default on GPUs. CPUs are slower with it; TPUs need not be asked."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return False
    if settings.jit_compile != "auto":
        return settings.jit_compile == "on"
    return bool(tf.config.list_logical_devices("GPU"))


def iterations_per_loop(settings: PretrainingSettings, strategy: tf.distribute.Strategy) -> int | None:
    """Steps a call of the training function; None to go by the time that they take.

    Several workers must all take the same number, or their all-reduces do not find each other.
    """
    return settings.iterations_per_loop or (10 if has_workers(strategy) else None)


def check_batch(settings: PretrainingSettings, strategy: tf.distribute.Strategy) -> None:
    """Raises InputError where the devices cannot share a training batch evenly."""
    replicas, parts = strategy.num_replicas_in_sync, settings.gradient_accumulation_steps
    if settings.train_batch_size % (replicas * parts):
        below = settings.train_batch_size // (replicas * parts) * replicas * parts
        raise InputError(
            "--train_batch_size must be divisible by the number of devices times "
            f"--gradient_accumulation_steps. Received {settings.train_batch_size}, which is not by {replicas} x "
            f"{parts}; {below or replicas * parts} would do."
        )
