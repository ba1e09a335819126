"""What a run's evaluations decide: which checkpoint is the best, when to stop early, when the model memorizes."""

import math

from albert_tf.pretraining.settings import ResolvedPretrainingSettings


class HeldOut:
    """The held-out loss of the run's last phase; earlier phases are evaluated on other lengths.

    Args:
      settings: for the phases and `early_stopping_patience`.
      lines: the run's metrics so far. All decisions follow from them, so that a resumed run decides like one that
        was never interrupted.

    Attributes:
      memorizes: whether the loss has ever risen for two evaluations in a row while the training loss fell.
    """

    def __init__(self, settings: ResolvedPretrainingSettings, lines: list[dict]):
        self._start = settings.phases[-1].start_step
        self._patience = settings.early_stopping_patience
        self._training_loss = math.nan
        self._losses: dict[int, tuple[float, float]] = {}  # step -> held out, in training
        self.memorizes = False
        for line in lines:
            self.add(line)

    def add(self, line: dict) -> None:
        """Takes in a line of metrics.jsonl; of several evaluations of one step only the first counts."""
        step = line["step"]
        self._training_loss = line.get("loss", self._training_loss)
        if "eval_loss" not in line or step <= self._start or step in self._losses:
            return
        self._losses[step] = line["eval_loss"], self._training_loss
        last = list(self._losses.values())[-3:]
        if len(last) == 3:
            (first, before), (second, _), (third, after) = last
            self.memorizes |= first < second < third and after < before

    @property
    def best_step(self) -> int | None:
        """The step of the lowest loss, the first among equals; None before the first evaluation."""
        losses = {step: math.inf if math.isnan(loss) else loss for step, (loss, _) in self._losses.items()}
        return min(losses, key=lambda step: losses[step], default=None)

    @property
    def best_loss(self) -> float:
        """The lowest loss, NaN if there is none."""
        return self._losses[self.best_step][0] if self.best_step is not None else math.nan

    @property
    def is_over(self) -> bool:
        """Whether early stopping ends the run: as many evaluations as `early_stopping_patience` since the best."""
        best = self.best_step
        if not self._patience or best is None:
            return False
        return sum(step > best for step in self._losses) >= self._patience
