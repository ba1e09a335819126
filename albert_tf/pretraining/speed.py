"""How fast a run goes, and how much of what its devices can do that is."""

import json
import os
import time
from pathlib import Path

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.flops import gpu_peak, tpu_peak, training_flops
from albert_tf.pretraining.settings import PretrainingSettings
from data_prep.files import write_text

PEAK_FILE = "peak.json"
_SIZE, _SECONDS = 2048, 0.5  # of the matrices and of the measurement


class Speed:
    """Turns times into the figures that are logged.

    Args:
      settings: the run's, with its lengths.
      config: the model.
      peak: FLOP/s of all devices together, None if it is not known.
    """

    def __init__(self, settings: PretrainingSettings, config: AlbertConfig, peak: float | None):
        T, P = settings.max_seq_length, settings.max_predictions_per_seq
        assert T and P, "inputs.py has resolved them"
        self.tokens_per_step = settings.train_batch_size * T
        self._flops_per_step = settings.train_batch_size * training_flops(config, T, P)
        self._peak = peak

    def values(self, steps: int, seconds: float, waited: float) -> dict[str, float]:
        """Figures of `steps` steps that took `seconds`, `waited` of them without a batch.

        Returns:
          `tokens_per_second`, padding included; `flops_per_second`, what the model needs (`training_flops`);
          `share_of_peak`, that of what the devices can do, if it is known; `input_wait_share`, of the time.
        """
        flops = steps * self._flops_per_step / seconds
        return {
            "tokens_per_second": steps * self.tokens_per_step / seconds,
            "flops_per_second": flops,
            **({"share_of_peak": flops / self._peak} if self._peak else {}),
            "input_wait_share": min(waited / seconds, 1.0),
        }


def device_peak(
    strategy: tf.distribute.Strategy, run: Path, dtype: str, *, measure: bool, at_once: int = 1
) -> float | None:
    """FLOP/s of all devices together: from `albert_tf.flops`, or measured; None if neither is to be had.

    Args:
      strategy: whose devices.
      run: the run's folder, where a measurement is kept and found again.
      dtype: what to multiply in.
      measure: whether to measure devices that are not in the tables.
      at_once: operations that a device does at the same time, `parts_at_once`.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return tpu_peak(os.environ.get("TPU_ACCELERATOR_TYPE", ""))
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
        known = gpu_peak(details.get("device_name", ""))
        if known:
            return known * strategy.num_replicas_in_sync
    if not measure:
        return None
    one = _kept_measurement(run / PEAK_FILE, dtype, at_once)
    # The CPU's devices are parts of one CPU; GPUs and workers are not.
    workers = 1
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        workers = strategy.num_replicas_in_sync // len(strategy.extended.worker_devices)
    return one * (strategy.num_replicas_in_sync if gpus else workers)


def _kept_measurement(path: Path, dtype: str, at_once: int) -> float:
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if dtype not in kept:
        kept[dtype] = measure_peak(dtype, at_once)
        write_text(path, json.dumps(kept) + "\n")
    return kept[dtype]


def measure_peak(dtype: str, at_once: int) -> float:
    """FLOP/s of the fastest of many products of large square matrices on the first device, some `at_once`."""
    matrix = tf.cast(tf.random.stateless_uniform([_SIZE, _SIZE], [0, 0]), dtype)

    @tf.function
    def product():
        # Not all the same, or TensorFlow would compute one product.
        factors = [matrix * (1 + number) for number in range(at_once)]
        return tf.add_n([tf.reduce_sum(tf.linalg.matmul(factor, matrix)[:1]) for factor in factors])

    product().numpy()
    best, end = float("inf"), time.monotonic() + _SECONDS
    while time.monotonic() < end:
        began = time.monotonic()
        product().numpy()
        best = min(best, time.monotonic() - began)
    return at_once * 2 * _SIZE**3 / best
