"""How the cores of a CPU share a training step: each takes a part of the batch, not a part of every operation.

Where all cores share every operation, they wait for each other at its end, and operations that TensorFlow does on
one core keep the others waiting. Parts of a batch meet once a step.
"""

import contextlib
import os

import tensorflow as tf

from albert_tf.training.cluster import read_cluster
from albert_tf.training.settings import PretrainingSettings

# A part of fewer tokens has products too small to be fast.
SMALLEST_PART = 1024


def parts_at_once(settings: PretrainingSettings) -> int:
    """`take_cores_apart` for a run's batch; 1 where something else divides it or it is compiled whole."""
    shared = settings.tpu or settings.num_devices or settings.strategy not in ("auto", "one")
    if shared or read_cluster() or settings.jit_compile == "on":
        return 1
    return take_cores_apart(
        settings.train_batch_size // settings.gradient_accumulation_steps, settings.max_seq_length or 0
    )


def take_cores_apart(batch_size: int, max_seq_length: int) -> int:
    """Gives TensorFlow one core for every operation, if a batch has a part for each core; its first instruction.

    Args:
      batch_size: examples that are computed together.
      max_seq_length: T.

    Returns:
      How many parts of a batch are to be computed at the same time. 1, and nothing is changed, where the batch
      does not divide evenly into parts of `SMALLEST_PART` tokens, there are accelerators, TensorFlow runs
      already, or the environment says how many threads it takes.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    tokens = batch_size // cores * max_seq_length
    chosen = {"TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"} & set(os.environ)
    if cores == 1 or batch_size % cores or tokens < SMALLEST_PART or chosen:
        return 1
    if any(tf.config.list_physical_devices(kind) for kind in ("GPU", "TPU")):
        return 1
    with contextlib.suppress(RuntimeError):  # TensorFlow runs already
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(cores)
        return cores
    return 1
