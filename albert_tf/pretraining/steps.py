"""The objective, the training step and the evaluation step of pretraining."""

from collections.abc import Callable, Iterable

import keras
import tensorflow as tf

from albert_tf.model.pretrainer import SUMS, AlbertPretrainer, pretraining_metrics, pretraining_sums
from albert_tf.optimizers import Lamb
from albert_tf.pretraining.devices import formula_compiler
from albert_tf.training.steps import OptimizerStep, not_inlined, sum_of_parts, sum_replicas


def step_metrics(sums: dict) -> dict[str, float]:
    """The means over the steps that the sums of a `TrainStep` cover.

    Returns:
      `skipped_steps`, the number of skipped steps. If any step was taken, also `pretraining_metrics` and
      `gradient_norm`, the mean norm before clipping.
    """
    sums = {name: float(value) for name, value in sums.items()}
    skipped: dict[str, float] = {"skipped_steps": int(sums["skipped_steps"])}
    if not sums["steps"]:
        return skipped
    return {**pretraining_metrics(sums), "gradient_norm": sums["gradient_norm"] / sums["steps"], **skipped}


class PretrainingObjective:
    """The two losses of pretraining, an `Objective` (albert_tf/training/steps.py)."""

    names = SUMS

    def __init__(self, model: AlbertPretrainer):
        self.model = model

    def counts(self, batch: dict) -> list[tf.Tensor]:
        """The numbers of predictions and of pairs."""
        return [tf.reduce_sum(batch["masked_lm_weights"]), tf.reduce_sum(batch["sentence_order_weights"])]

    def loss_and_sums(self, batch: dict, counts: list[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """The sum of the losses of masked words and of sentence order; the sums in the order of `SUMS`, (7,)."""
        predictions, pairs = counts
        sums = pretraining_sums(self.model(batch, training=True), batch, self.model.encoder.kernels)
        global_counts = {"masked_lm_weight": predictions, "sentence_order_weight": pairs}
        loss = pretraining_metrics({**sums, **global_counts})["loss"]
        return loss, tf.stack([sums[name] for name in SUMS])


class TrainStep(OptimizerStep):
    """The `OptimizerStep` of pretraining.

    Args:
      model: created under `strategy.scope()`, as is the optimizer.
      optimizer: built for the model's trainable variables.
      strategy: the replicas that share every batch.
      jit_compile: compile the forward and backward pass with XLA.
      **options: the others of `Gradients`; for `parallel_parts` see `split_batches_over_cores`.
    """

    def __init__(
        self,
        model: AlbertPretrainer,
        optimizer: keras.optimizers.Optimizer,
        strategy: tf.distribute.Strategy,
        *,
        jit_compile: bool = False,
        **options: int,
    ):
        compiler = formula_compiler()  # called in any case: it starts XLA without YNNPACK
        compilers = {"jit_compile": jit_compile, "formula_compiler": None if jit_compile else compiler}
        super().__init__(PretrainingObjective(model), optimizer, strategy, **compilers, **options)
        self._trust_ratios = tf.function(_trust_ratios, autograph=False)

    def trust_ratios(self) -> dict[str, float]:
        """LAMB's `trust_ratio_{mean,min,max}` for the current weights and moments; nothing for AdamW."""
        if not isinstance(self._optimizer, Lamb):
            return {}
        return {f"trust_ratio_{name}": float(v) for name, v in self._trust_ratios(self._optimizer).items()}


def _trust_ratios(optimizer: Lamb) -> dict[str, tf.Tensor]:
    values = optimizer.trust_ratios()
    return {"mean": tf.reduce_mean(values), "min": tf.reduce_min(values), "max": tf.reduce_max(values)}


class EvalStep:
    """Computes the sums of a batch over all replicas, without dropout: `sums = step(batch)`.

    Args:
      model: created under `strategy.scope()`.
      strategy: the replicas that share every batch.
      parallel_parts: parts of a batch that are computed in parallel if it divides evenly, see
        `split_batches_over_cores`; more than 1 only for a single replica.
    """

    def __init__(self, model: AlbertPretrainer, strategy: tf.distribute.Strategy, *, parallel_parts: int = 1):
        self._model, self._strategy, self._parallel_parts = model, strategy, parallel_parts
        self._sums_of_part: Callable = self._sums
        if parallel_parts > 1:  # not with several replicas: it would capture the variables of one
            self._sums_of_part = not_inlined(self._sums)
        self._step = tf.function(self._all_replicas, autograph=False)

    def __call__(self, batch) -> dict[str, tf.Tensor]:
        """`pretraining_sums` of a distributed batch."""
        return self._step(batch)

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
            totals = {name: totals[name] + float(sums[name]) for name in SUMS}
        metrics = {f"eval_{name}": value for name, value in pretraining_metrics(totals).items()}
        return {**metrics, "eval_examples": int(totals["examples"])}

    def _all_replicas(self, batch):
        sums = sum_replicas(self._strategy, self._strategy.run(self._replica_sums, args=(batch,)))
        return dict(zip(SUMS, tf.unstack(sums), strict=True))

    def _replica_sums(self, batch):
        return sum_of_parts(lambda part, _: self._sums_of_part(part), batch, self._parallel_parts)

    def _sums(self, batch):
        sums = pretraining_sums(self._model(batch, training=False), batch)
        return tf.stack([sums[name] for name in SUMS])
