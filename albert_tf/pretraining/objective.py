"""What pretraining minimizes."""

from keras import ops

from albert_tf.model.pretrainer import SUMS, AlbertPretrainer, pretraining_metrics, pretraining_sums


class PretrainingObjective:
    """The two losses of pretraining, an `Objective` (albert_tf/training/steps.py)."""

    names = SUMS

    def __init__(self, model: AlbertPretrainer):
        self.model = model

    def counts(self, batch: dict) -> list:
        """The numbers of predictions and of pairs."""
        return [ops.sum(batch["masked_lm_weights"]), ops.sum(batch["sentence_order_weights"])]

    def needs_rows(self, batch) -> bool:
        return False

    def rows(self, batch) -> dict:
        return {}

    def loss_and_sums(self, batch: dict, counts: list) -> tuple:
        """The sum of the losses of masked words and of sentence order; the sums in the order of `SUMS`, (7,)."""
        predictions, pairs = counts
        sums = pretraining_sums(self.model(batch, training=True), batch, self.model.encoder.kernels)
        global_counts = {"masked_lm_weight": predictions, "sentence_order_weight": pairs}
        loss = pretraining_metrics({**sums, **global_counts})["loss"]
        return loss, ops.stack([sums[name] for name in SUMS])
