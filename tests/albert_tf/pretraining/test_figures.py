"""The figures of speed that a run logs."""

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.flops import training_flops
from albert_tf.pretraining.figures import Speed
from tests.albert_tf.pretraining.plans import plan_of


def test_figures():
    """Of 10 steps of 64 sequences of 128 tokens in 4 seconds, one of which passed in waiting."""
    (phase,) = plan_of((128, 20), train_batch_size=64).phases
    config = AlbertConfig.from_preset("albert_base_v2")
    figures = Speed(phase, config, None).values(10, 4.0, 1.0)
    flops = 10 * 64 * training_flops(config, T=128, P=20) / 4.0
    assert figures == pytest.approx(
        {"tokens_per_second": 20_480.0, "flops_per_second": flops, "input_wait_share": 0.25}
    )
    with_peak = Speed(phase, config, 4 * flops).values(10, 4.0, 5.0)
    assert with_peak == pytest.approx({**figures, "share_of_peak": 0.25, "input_wait_share": 1.0})
