"""How a pretraining run uses its devices: XLA, the division of a batch over replicas and cores."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from albert_tf.model.keras_model import xla_is_faster
from albert_tf.pretraining.plan import PretrainingPlan
from albert_tf.training.cluster import read_cluster
from albert_tf.training.device_flags import check_batch_divides
from albert_tf.training.devices import Devices, check_memory
from albert_tf.training.tensorflow_devices import TensorFlowDevices
from data_prep.cores import available_cores

# Smallest part of a batch for one core, in tokens times H. In smaller parts the matrix products do not
# outweigh what one core computes alone, once a step.
SMALLEST_PART = 1 << 19
# XLA's flag for the kinds of operations that YNNPACK computes on CPUs.
YNNPACK_FLAG = "xla_cpu_experimental_ynn_fusion_type"


def step_options(plan: PretrainingPlan, devices: Devices, parallel_parts: int) -> dict[str, Any]:
    """How the training step is computed: the options of `Devices.optimizer_step` besides micro-batches.

    XLA compiles the whole step on JAX, on TPUs, and by default on GPUs. On CPUs TensorFlow alone is faster, if XLA
    compiles single formulas.
    """
    if not isinstance(devices, TensorFlowDevices):
        return {}
    compiler = formula_compiler()  # called in any case: it starts XLA without YNNPACK
    by_default = "off" if devices.is_cpu else "on"
    jit_compile = not devices.is_tpu and {"auto": by_default}.get(plan.jit_compile, plan.jit_compile) == "on"
    return {
        "parallel_parts": parallel_parts,
        "jit_compile": jit_compile,
        "formula_compiler": None if jit_compile else compiler,
    }


def check_batches(plan: PretrainingPlan, devices: Devices) -> None:
    """Raises InputError if a training batch does not divide evenly over devices, or CPUs cannot hold it."""
    for phase in plan.phases:
        parts = plan.gradient_accumulation_steps
        check_batch_divides(phase.train_batch_size, devices.replicas, parts)
        rows = phase.train_batch_size // parts
        check_memory(plan, plan.config, devices, rows, phase.max_seq_length, stores=True)


def choose_parallel_parts(plan: PretrainingPlan) -> int:
    """`split_batches_over_cores` for a run, which also sets TensorFlow's threads.

    1, with the threads as they are, if batches are divided over devices or compiled as a whole.
    """
    if keras.backend.backend() != "tensorflow":
        return 1
    distributed = plan.tpu or plan.num_devices or plan.strategy not in ("auto", "one")
    workers = plan.strategy == "auto" and read_cluster()  # --strategy=one ignores TF_CONFIG
    if distributed or workers or plan.jit_compile == "on":
        return 1
    batches = [
        (phase.train_batch_size // plan.gradient_accumulation_steps, phase.max_seq_length)
        for phase in plan.phases
    ]
    return split_batches_over_cores(batches, plan.config.hidden_size)


def split_batches_over_cores(batches: Sequence[tuple[int, int]], hidden_size: int) -> int:
    """Makes each CPU core compute a part of a batch, not of every operation. Call it before TensorFlow starts.

    Cores that share every operation wait for each other after each one, and while one of them computes an
    operation that TensorFlow does not divide. Parts of a batch only meet once a step.

    Args:
      batches: examples that are computed together, and T, for every phase of the run.
      hidden_size: H.

    Returns:
      The number of parts of a batch to compute in parallel; TensorFlow then uses one thread in each
      operation. It is 1, and nothing is changed, if one of the batches does not divide evenly into parts of at
      least `SMALLEST_PART`, there are accelerators, TensorFlow has started, or the environment sets TensorFlow's
      numbers of threads.
    """
    cores = available_cores()
    divide = all(B % cores == 0 and B // cores * T * hidden_size >= SMALLEST_PART for B, T in batches)
    chosen = {"TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"} & set(os.environ)
    if cores == 1 or not divide or chosen:
        return 1
    if any(tf.config.list_physical_devices(kind) for kind in ("GPU", "TPU")):
        return 1
    with contextlib.suppress(RuntimeError):  # TensorFlow has started
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(cores)
        return cores
    return 1


def formula_compiler() -> Callable | None:
    """XLA for the formulas of a step that is not compiled as a whole: `compiler` of a model's kernels.

    On CPUs TensorFlow computes each operation of a formula in a separate pass over memory; XLA needs one
    pass for all. Matrix products stay with TensorFlow: XLA's are slower on CPUs, in bfloat16 by a factor of 2
    to 3.5.

    The first call on a CPU starts XLA, without YNNPACK.

    Returns:
      None on accelerators, and without XLA for CPUs.
    """
    return None if xla_is_faster() or not compiles_for_cpus() else compile_formula


@functools.cache
def compile_formula(formula: Callable) -> Callable:
    """The formula compiled by XLA, once for each combination of shapes."""
    return tf.function(formula, jit_compile=True, autograph=False)


@functools.cache
def compiles_for_cpus() -> bool:
    """Whether this TensorFlow includes XLA for CPUs; tensorflow-tpu does not."""
    with xla_without_ynnpack(), tf.init_scope():
        try:
            tf.function(lambda: tf.zeros(()), jit_compile=True, autograph=False)()
        except tf.errors.NotFoundError:
            return False
    return True


@contextlib.contextmanager
def xla_without_ynnpack() -> Iterator[None]:
    """If XLA starts inside the block, it never adds numbers with YNNPACK, which TensorFlow has since 2.21.

    The cores that compute parts of a batch call the same compiled formulas. If two threads make the first calls of
    a formula with sums by YNNPACK at the same time, both write to one list, and the process may crash. A step
    without YNNPACK is as fast.
    """
    flags = Path(tf.sysconfig.get_include()) / "xla" / "xla.pb.h"
    is_known = flags.is_file() and YNNPACK_FLAG in flags.read_text("utf-8")
    if not is_known:  # an unknown flag would end the process
        yield
        return
    before = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = f"{before or ''} --{YNNPACK_FLAG}=".strip()
    try:
        yield
    finally:  # XLA reads the variable once; other libraries may not know the flag
        del os.environ["XLA_FLAGS"]
        if before is not None:
            os.environ["XLA_FLAGS"] = before
