"""What the loop records of its steps."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from albert_tf.optimizers import WarmupPolynomialDecay
from albert_tf.training.step_loop import StepLoop


class Counter:
    """A training step that only counts, and takes some seconds of a clock."""

    def __init__(self, seconds: float = 0.0):
        self.seconds, self.now = seconds, 1000.0
        self.calls: list[int] = []

    def zero_sums(self):
        return {"steps": tf.constant(0)}

    def __call__(self, batches, steps, sums):
        self.calls.append(int(steps))
        self.now += self.calls[-1] * self.seconds
        return {"steps": sums["steps"] + steps}


@pytest.mark.parametrize(("stops_at", "reached", "logged"), [(99, 5, 5), (5, 5, 5), (4, 4, None)])
def test_an_interval_is_recorded_whole_or_not_at_all(stops_at, reached, logged):
    """Otherwise the resumed run would make two of one, and the guard would count both."""
    loop = StepLoop(
        Counter(),
        iter(()),
        lambda sums, steps, seconds: {"taken": int(sums["steps"])},
        WarmupPolynomialDecay(1.0, num_train_steps=10, num_warmup_steps=0),
        steps_per_call=1,
    )
    step, values, stop = loop.run(2, 5, lambda step: step >= stops_at)
    assert (step, values and values["taken"], stop) == (reached, logged and 3, stops_at <= 5)


@pytest.mark.parametrize(
    ("seconds", "calls"),
    [(0.25, [1, 8, 8, 3, 8, 8, 4]), (10.0, [1] * 40)],
)
def test_calls_take_about_two_seconds(seconds, calls, monkeypatch):
    """The rate that is logged is that of the last step."""
    step = Counter(seconds)
    monkeypatch.setattr("albert_tf.training.step_loop.time", SimpleNamespace(monotonic=lambda: step.now))
    schedule = WarmupPolynomialDecay(1.0, num_train_steps=100, num_warmup_steps=0)
    loop = StepLoop(step, iter(()), lambda *figures: {"seconds": figures[2]}, schedule, None)
    for start, target in ((0, 20), (20, 40)):
        _, values, _ = loop.run(start, target, lambda step: False)
        assert values == pytest.approx({"seconds": 20 * seconds, "learning_rate": 1 - (target - 1) / 100})
    assert step.calls[0] == 0, "builds the graph"
    assert step.calls[1:] == calls
