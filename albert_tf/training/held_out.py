"""What a run's evaluations decide: which weights are kept, when to stop early, when the model memorizes."""

import math

# In the line of an evaluation without training, which may be of other text: it decides nothing.
EVALUATION_ALONE = "evaluation_alone"
LOSS = "eval_loss"

MEMORIZATION = (
    "warning: the held-out loss has risen for two evaluations while the training loss fell: the model memorizes "
    "its examples. More text helps, or `albert prepare --masking=dynamic`, fewer steps, a smaller model, or "
    "--early_stopping_patience"
)


class HeldOut:
    """The policy for best weights and early stopping, of pretraining and fine-tuning.

    The best evaluation has the best metric; among equals the lowest loss, then it is the first. NaN is worse than
    every number. Early stopping counts the evaluations since the metric last improved, whatever the loss.

    All decisions follow from the lines of metrics.jsonl, so that a resumed run decides like one that was never
    interrupted.

    Args:
      lines: the run's metrics so far.
      metric: the name of the metric: `LOSS`, or one of which more is better.
      patience: evaluations without a better one after which the run is over; None to train to the end.
      after: only evaluations after this step count; earlier phases are evaluated on other lengths.

    Attributes:
      evaluated: the steps that the run has evaluated.
      best: the line of the best evaluation, None before the first.
      memorizes: whether the loss, as the metric, has ever risen for two evaluations in a row while the training
        loss fell.
    """

    def __init__(self, lines: list[dict], metric: str = LOSS, patience: int | None = None, after: int = 0):
        self._metric, self._patience, self._after = metric, patience, after
        self._training_loss = math.nan
        self._losses: list[tuple[float, float]] = []  # held out, in training
        self._gain: dict | None = None  # the first evaluation with the best metric
        self._since_gain = 0  # evaluations
        self.evaluated: set[int] = set()
        self.best: dict | None = None
        self.memorizes = False
        for line in lines:
            self.add(line)

    def add(self, line: dict) -> None:
        """Takes in a line of metrics.jsonl; of several evaluations of one step only the first counts."""
        step = line["step"]
        self._training_loss = line.get("loss", self._training_loss)
        if self._metric not in line or EVALUATION_ALONE in line or step in self.evaluated:
            return
        self.evaluated.add(step)
        if step <= self._after:
            return
        self._since_gain += 1
        if self._gain is None or self._score(line) > self._score(self._gain):
            self._gain, self._since_gain = line, 0
        if self.best is None or self._rank(line) > self._rank(self.best):
            self.best = line
        if self._metric == LOSS:
            self._losses = [*self._losses, (line[LOSS], self._training_loss)][-3:]
            self.memorizes |= _rises_alone(self._losses)

    @property
    def is_over(self) -> bool:
        """Whether early stopping ends the run."""
        return bool(self._patience and self._since_gain >= self._patience)

    @property
    def reason(self) -> str:
        """Why early stopping ends the run."""
        assert self._gain
        name = "held-out loss" if self._metric == LOSS else self._metric.removeprefix("eval_")
        return f"{self._patience} evaluations without a better {name} than at step {self._gain['step']}"

    def _score(self, line: dict) -> float:
        value = line[self._metric]
        return _or_worst(-value if self._metric == LOSS else value)

    def _rank(self, line: dict) -> tuple[float, float]:
        return self._score(line), _or_worst(-line.get(LOSS, math.inf))


def _rises_alone(losses: list[tuple[float, float]]) -> bool:
    """Whether of three evaluations each has a higher loss, and the last a lower one in training than the first."""
    if len(losses) < 3:
        return False
    (first, before), (second, _), (third, after) = losses
    return first < second < third and after < before


def _or_worst(value: float) -> float:
    return -math.inf if math.isnan(value) else value
