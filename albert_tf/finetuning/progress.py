"""The progress bar of fine-tuning."""

from albert_tf.training.run_log import TrainingProgress


class FinetuningProgress(TrainingProgress):
    """As in pretraining, with the figures of one task."""

    def _figures(self, values: dict[str, float]) -> str:
        return f"loss {values['loss']:.3f}  {values['examples_per_second']:,.1f} examples/s"

    def say_evaluation(self, step: int, metrics: dict[str, float]) -> None:
        """Prints the figures of an evaluation."""
        self.say(f"dev at step {step}: {in_words(metrics)}")


def in_words(metrics: dict[str, float]) -> str:
    """Metrics with their names, for people."""
    return "  ".join(
        f"{name.removeprefix('eval_')} {value:,}"
        if isinstance(value, int)
        else f"{name.removeprefix('eval_')} {value:.4f}"
        for name, value in metrics.items()
    )
