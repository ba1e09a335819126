"""How the cores of a CPU share a training step: each takes a part of the batch, not a part of every operation.

Where all cores share every operation, they wait for each other at its end, and operations that TensorFlow does on
one core keep the others waiting. Parts of a batch meet once a step.
"""

import contextlib
import os

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.settings import PretrainingSettings
from albert_tf.training.cluster import read_cluster
from data_prep.prepare.workers import available_cores

# Tokens times H of a part. Of smaller ones the products no longer outweigh what is done once a step on one core.
SMALLEST_PART = 1 << 19


def parts_at_once(settings: PretrainingSettings, config: AlbertConfig) -> int:
    """`take_cores_apart` for a run's batch; 1 where something else divides it or it is compiled whole."""
    shared = settings.tpu or settings.num_devices or settings.strategy not in ("auto", "one")
    workers = settings.strategy == "auto" and read_cluster()  # --strategy=one does not look at TF_CONFIG
    if shared or workers or settings.jit_compile == "on":
        return 1
    batch_size = settings.train_batch_size // settings.gradient_accumulation_steps
    return take_cores_apart(batch_size, settings.max_seq_length or 0, config.hidden_size)


def take_cores_apart(batch_size: int, max_seq_length: int, hidden_size: int) -> int:
    """Gives TensorFlow one core for every operation, if a batch has a part for each core; its first instruction.

    Args:
      batch_size: examples that are computed together.
      max_seq_length: T.
      hidden_size: H.

    Returns:
      How many parts of a batch are to be computed at the same time. 1, and nothing is changed, where the batch
      does not divide evenly into parts of at least `SMALLEST_PART`, there are accelerators, TensorFlow runs
      already, or the environment says how many threads it takes.
    """
    cores = available_cores()
    part = batch_size // cores * max_seq_length * hidden_size
    chosen = {"TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"} & set(os.environ)
    if cores == 1 or batch_size % cores or part < SMALLEST_PART or chosen:
        return 1
    if any(tf.config.list_physical_devices(kind) for kind in ("GPU", "TPU")):
        return 1
    with contextlib.suppress(RuntimeError):  # TensorFlow runs already
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(cores)
        return cores
    return 1
