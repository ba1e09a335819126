"""The metrics of pretraining's steps and evaluations."""

from collections.abc import Callable, Iterable

import keras
from keras import ops

from albert_tf.model.pretrainer import SUMS, AlbertPretrainer, pretraining_metrics, pretraining_sums
from albert_tf.optimizers import Lamb
from albert_tf.training.devices import Devices
from albert_tf.training.tensorflow_steps import not_inlined, sum_of_parts


def step_metrics(sums: dict) -> dict[str, float]:
    """The means over the steps that the sums of an `OptimizerStep` cover.

    Returns:
      `skipped_steps`, the number of skipped steps. If any step was taken, also `pretraining_metrics` and
      `gradient_norm`, the mean norm before clipping.
    """
    sums = {name: float(value) for name, value in sums.items()}
    skipped: dict[str, float] = {"skipped_steps": int(sums["skipped_steps"])}
    if not sums["steps"]:
        return skipped
    return {**pretraining_metrics(sums), "gradient_norm": sums["gradient_norm"] / sums["steps"], **skipped}


def trust_ratios(optimizer: keras.optimizers.Optimizer) -> dict[str, float]:
    """LAMB's `trust_ratio_{mean,min,max}` for the current weights and moments; nothing for AdamW."""
    if not isinstance(optimizer, Lamb):
        return {}
    values = keras.ops.convert_to_numpy(optimizer.trust_ratios())
    return {f"trust_ratio_{name}": float(getattr(values, name)()) for name in ("mean", "min", "max")}


class EvalStep:
    """Computes the sums of a batch over all replicas, without dropout: `sums = step(batch)`.

    Args:
      model: created under `devices.scope()`.
      devices: share every batch.
      parallel_parts: parts of a batch that are computed in parallel if it divides evenly, see
        `split_batches_over_cores`; more than 1 only for a single replica of TensorFlow's.
    """

    def __init__(self, model: AlbertPretrainer, devices: Devices, *, parallel_parts: int = 1):
        self._model = model
        sums: Callable = self._sums
        if parallel_parts > 1:
            sums_of_part = not_inlined(self._sums)
            sums = lambda batch: sum_of_parts(lambda part, _: sums_of_part(part), batch, parallel_parts)  # noqa: E731
        self._step = devices.summed(sums, model)

    def __call__(self, batch) -> dict[str, float]:
        """`pretraining_sums` of a global batch."""
        return dict(zip(SUMS, self._step(batch).tolist(), strict=True))

    def metrics(self, batches: Iterable, max_steps: int | None = None) -> dict[str, float]:
        """Means over the examples of at most `max_steps` batches.

        Returns:
          `pretraining_metrics`, with names prefixed by `eval_`, and `eval_examples`, the number of examples.
        """
        totals = dict.fromkeys(SUMS, 0.0)
        for step, batch in enumerate(batches):
            if step == max_steps:
                break
            sums = self(batch)
            totals = {name: totals[name] + sums[name] for name in SUMS}
        metrics = {f"eval_{name}": value for name, value in pretraining_metrics(totals).items()}
        return {**metrics, "eval_examples": int(totals["examples"])}

    def _sums(self, batch):
        sums = pretraining_sums(self._model(batch, training=False), batch)
        return ops.stack([sums[name] for name in SUMS])
