"""The figures that a pretraining run computes of its speed, and those that its terminal shows."""

from albert_tf.config import AlbertConfig
from albert_tf.flops import training_flops
from albert_tf.pretraining.phases import Phase
from albert_tf.training.run_log import Wording


class Speed:
    """Turns durations into the figures that are logged.

    Args:
      phase: the run's present phase.
      config: the model's.
      peak: FLOP/s of all devices together, None if unknown.
    """

    def __init__(self, phase: Phase, config: AlbertConfig, peak: float | None):
        batch_size, T = phase.train_batch_size, phase.max_seq_length
        self._tokens_per_step = batch_size * T
        self._flops_per_step = batch_size * training_flops(config, T, phase.max_predictions_per_seq)
        self._peak = peak

    def values(self, steps: int, seconds: float, waited: float) -> dict[str, float]:
        """The figures of `steps` steps that took `seconds`, `waited` of them for batches.

        Returns:
          `tokens_per_second`, padding included; `flops_per_second`, those that the model needs (`training_flops`);
          `share_of_peak`, their share of the peak, if it is known; `input_wait_share`, the share of time
          spent waiting.
        """
        flops = steps * self._flops_per_step / seconds
        return {
            "tokens_per_second": steps * self._tokens_per_step / seconds,
            "flops_per_second": flops,
            **({"share_of_peak": flops / self._peak} if self._peak else {}),
            "input_wait_share": min(waited / seconds, 1.0),
        }


def _figures(values: dict[str, float]) -> str:
    speed = f"{values['tokens_per_second']:,.0f} tokens/s"
    if "loss" not in values:
        return f"all {values['skipped_steps']} steps skipped: the loss or gradient is not finite  {speed}"
    return (
        f"loss {values['loss']:.3f}  MLM {values['masked_lm_accuracy']:.3f}  "
        f"SOP {values['sentence_order_accuracy']:.3f}  {speed}"
    )


def _evaluation(step: int, metrics: dict[str, float]) -> str:
    loss, masked_lm, order = (
        metrics[f"eval_{name}"] for name in ("loss", "masked_lm_accuracy", "sentence_order_accuracy")
    )
    return (
        f"held out at step {step}: loss {loss:.3f}  MLM {masked_lm:.3f}  SOP {order:.3f}"
        f"  on {metrics['eval_examples']:,} examples"
        + (f"; old text: loss {metrics['eval_old_loss']:.3f}" if "eval_old_loss" in metrics else "")
    )


WORDING = Wording(_figures, _evaluation)
