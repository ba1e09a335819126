"""Notices when training goes wrong: a loss that jumps and stays up, steps that are not finite."""

import statistics

from albert_tf.pretraining.settings import PretrainingSettings
from data_prep.errors import InputError

WINDOW = 20  # logged intervals whose median is the usual loss
AT_LEAST = 3  # of them, before anything is judged


class Guard:
    """Watches the logged intervals; says when to go back to the last good checkpoint.

    An interval is bad if its loss is above `spike_factor` times the median of the last `WINDOW` good ones, or
    if all its steps were skipped. After `spike_intervals` bad ones in a row the weights and
    moments of the last good checkpoint, one that was saved after a good interval, take the place of the
    present ones. The step goes on: the examples of the steps that are lost are not read again, so that the
    same ones do not cause the same spike, and learning rate and dropout follow the step as ever.

    Args:
      settings: for `spike_factor`, `spike_intervals` and `max_rollbacks`.
      lines: the run's metrics so far. All that the guard knows follows from them, so a run that was killed
        judges like one that was not, but roll-backs are counted from 0 whenever the program starts.
    """

    def __init__(self, settings: PretrainingSettings, lines: list[dict]):
        self._settings = settings
        self._losses: list[float] = []
        self._bad = 0
        self._last: tuple[float | None, float | None] = None, None
        self._rollbacks = 0
        self._source: int | None = None  # of the last roll-back, if no good checkpoint was saved since
        for line in lines:
            if "rolled_back_to" in line:
                self._bad, self._source = 0, line["rolled_back_to"]
            elif "skipped_steps" in line:
                self._judge(line)

    @property
    def calm(self) -> bool:
        """Whether the last interval was good, and so a checkpoint of now would be."""
        return self._bad == 0

    def spiked(self, values: dict[str, float]) -> bool:
        """Judges the interval that was logged with these `values`; whether to roll back now."""
        self._judge(values)
        return self._bad >= self._settings.spike_intervals

    def choose(self, good_steps: list[int]) -> int:
        """The checkpoint to go back to, of those that are whole and good, newest first.

        One that led to a spike already is used again only if there is no other.

        Raises:
          InputError: there is none.
        """
        if not good_steps:
            raise InputError(f"{self._spike()}, and there is no good checkpoint to go back to. {_ADVICE}")
        if self._source is None:
            return good_steps[0]
        newer = [step for step in good_steps if step > self._source]
        older = [step for step in good_steps if step < self._source]
        return (newer or older or good_steps)[0]

    def rolled_back(self, source: int) -> str:
        """Counts a roll-back to the checkpoint of step `source`; returns what to say of it.

        Raises:
          InputError: there have been `max_rollbacks` before.
        """
        spike = self._spike()
        if self._rollbacks == self._settings.max_rollbacks:
            raise InputError(f"{spike}, after {self._rollbacks} roll-backs. {_ADVICE}")
        self._rollbacks += 1
        self._bad, self._source = 0, source
        return (
            f"{spike}: going on with the weights of step {source} (roll-back {self._rollbacks} of at most "
            f"{self._settings.max_rollbacks})"
        )

    def _judge(self, values: dict) -> None:
        loss = values.get("loss")
        usual = statistics.median(self._losses) if len(self._losses) >= AT_LEAST else None
        self._last = loss, usual
        too_high = loss is not None and usual is not None and loss > self._settings.spike_factor * usual
        if loss is None or too_high:
            self._bad += 1
        else:
            self._bad = 0
            self._losses = [*self._losses, loss][-WINDOW:]

    def _spike(self) -> str:
        loss, usual = self._last
        if loss is None:
            return f"All steps of {self._bad} logged intervals had a loss or gradient that is not finite"
        return f"The loss is {loss:.3f} where {usual:.3f} was usual, for {self._bad} logged intervals"


_ADVICE = (
    "Training collapses: use a lower --learning_rate, a longer warm-up (--num_warmup_steps), or float32 if this "
    "is --mixed_precision=bfloat16. The same --output_dir goes on with the last good weights."
)
