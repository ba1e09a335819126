"""What the loop records of its steps."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from albert_tf.optimizers import WarmupPolynomialDecay
from albert_tf.training.step_loop import StepLoop


class Counter:
    """A training step that only counts."""

    def zero_sums(self):
        return {"steps": tf.constant(0)}

    def __call__(self, batches, steps, sums):
        return {"steps": sums["steps"] + steps}


@pytest.mark.parametrize(("stops_at", "reached", "logged"), [(99, 5, 5), (5, 5, 5), (4, 4, None)])
def test_an_interval_is_recorded_whole_or_not_at_all(stops_at, reached, logged):
    """Otherwise the resumed run would make two of one, and the guard would count both."""
    shown, recorded = [0], []
    session = SimpleNamespace(
        progress=SimpleNamespace(advance=shown.append),
        preemption=SimpleNamespace(agreed=lambda: shown[-1] >= stops_at),
        record_step=lambda step, values, seconds_left: recorded.append((step, values)),
    )
    loop = StepLoop(
        Counter(),
        iter(()),
        lambda sums, steps, seconds: {"taken": int(sums["steps"])},
        WarmupPolynomialDecay(1.0, num_train_steps=10, num_warmup_steps=0),
        session,
        steps_per_call=1,
    )
    step, values, stop = loop.run(2, 5)
    assert (step, values and values["taken"], stop) == (reached, logged and 3, stops_at <= 5)
    assert recorded == ([(5, values)] if logged else [])
