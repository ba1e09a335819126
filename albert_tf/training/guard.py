"""Detects when training goes wrong: a loss that jumps and stays high, steps that are not finite."""

import bisect
import statistics
from collections.abc import Sequence

from data_prep.errors import InputError

WINDOW = 20  # good intervals whose median loss is the usual loss
AT_LEAST = 3  # good intervals before a loss can be a spike


class Guard:
    """Watches the logged intervals and decides when to roll back to a good checkpoint.

    An interval is bad if its loss is above `spike_factor` times the median of the last `WINDOW` good
    intervals, or if all its steps were skipped. After `spike_intervals` bad intervals in a row the run
    restores the weights and moments of the last good checkpoint, that is, one saved after a good interval.
    The step is not rolled back: the examples of the lost steps are not read again, so that they do not cause the
    same spike, and learning rate and dropout continue to follow the step. The examples of every phase have a usual
    loss of their own, which is learned when the phase begins.

    Args:
      lines: the run's metrics so far. The guard derives its state from them, so that a resumed run decides
        like one that was never killed; only roll-backs are counted from 0 whenever the program starts.
      ends: the last steps of the run's phases.
      spike_factor: see above, as for the others.
      spike_intervals: bad intervals in a row.
      max_rollbacks: roll-backs before the run stops.
    """

    def __init__(
        self,
        lines: list[dict],
        ends: Sequence[int],
        spike_factor: float,
        spike_intervals: int,
        max_rollbacks: int,
    ):
        self._ends = ends
        self._spike_factor, self._spike_intervals = spike_factor, spike_intervals
        self._max_rollbacks = max_rollbacks
        self._losses: list[float] = []
        self._phase = 0  # of the last line
        self._bad = 0
        self._last: tuple[float | None, float | None] = None, None
        self._rollbacks = 0
        self._source: int | None = None  # step of the last roll-back's checkpoint
        for line in lines:
            if "rolled_back_to" in line:
                self._bad, self._source = 0, line["rolled_back_to"]
            elif "skipped_steps" in line:
                self._judge(line)

    @property
    def is_stable(self) -> bool:
        """Whether the last interval was good, so that a checkpoint saved now is good."""
        return self._bad == 0

    def spiked(self, line: dict[str, float]) -> bool:
        """Judges the interval that a line of metrics.jsonl describes; returns whether to roll back now."""
        self._judge(line)
        return self._bad >= self._spike_intervals

    def choose(self, good_steps: list[int]) -> int:
        """The step of the checkpoint to roll back to.

        A checkpoint that already led to a spike is used again only if there is no other.

        Args:
          good_steps: the steps of the intact good checkpoints, newest first.

        Raises:
          InputError: there are none.
        """
        if not good_steps:
            raise InputError(f"{self._spike()}, and there is no good checkpoint to roll back to. {_ADVICE}.")
        if self._source is None:
            return good_steps[0]
        newer = [step for step in good_steps if step > self._source]
        older = [step for step in good_steps if step < self._source]
        return (newer or older or good_steps)[0]

    def rolled_back(self, source: int) -> str:
        """Counts a roll-back to the checkpoint of step `source`; returns a line that reports it.

        Raises:
          InputError: there were `max_rollbacks` before.
        """
        spike = self._spike()
        if self._rollbacks == self._max_rollbacks:
            raise InputError(
                f"{spike}, after {self._rollbacks} roll-backs. {_ADVICE}; with the same --output_dir the run "
                "resumes with the last good weights."
            )
        self._rollbacks += 1
        self._bad, self._source = 0, source
        return (
            f"{spike}: resuming with the weights of step {source} (roll-back {self._rollbacks} of at most "
            f"{self._max_rollbacks})"
        )

    def _judge(self, line: dict) -> None:
        phase = bisect.bisect_left(self._ends, line["step"])
        if phase != self._phase:
            self._losses, self._bad, self._phase = [], 0, phase
        loss = line.get("loss")
        usual = statistics.median(self._losses) if len(self._losses) >= AT_LEAST else None
        self._last = loss, usual
        too_high = loss is not None and usual is not None and loss > self._spike_factor * usual
        if loss is None or too_high:
            self._bad += 1
        else:
            self._bad = 0
            self._losses = [*self._losses, loss][-WINDOW:]

    def _spike(self) -> str:
        loss, usual = self._last
        now = (
            "not finite, or its gradient is not"
            if loss is None
            else f"{loss:.3f} instead of about {usual:.3f}"
        )
        return f"The loss is {now}, in the last of {self._bad} bad intervals in a row"


_ADVICE = (
    "Training diverges: use a lower --learning_rate, a longer warm-up (--num_warmup_steps), or float32 instead "
    "of --mixed_precision=bfloat16"
)
