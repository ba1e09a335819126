"""When the guard detects a spike, and which checkpoint it rolls back to."""

import pytest

from albert_tf.training.guard import Guard
from data_prep.errors import InputError


def guard_after(lines=(), ends=(100,)) -> Guard:
    return Guard(list(lines), ends, spike_factor=1.5, spike_intervals=2, max_rollbacks=2)


def line(loss: float | None, step: int = 1) -> dict:
    return {"step": step, **({"skipped_steps": 10} if loss is None else {"loss": loss, "skipped_steps": 0})}


def verdicts(losses, lines=()) -> list[bool]:
    guard = guard_after(lines)
    return [guard.spiked(line(loss)) for loss in losses]


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([10, 9, 8, 7, 6, 5, 4, 3], []),  # learning
        ([5, 5, 5, 9, 5, 9, 5], []),  # single bad intervals
        ([5, 5, 5, 9, 9], [4]),
        ([5, 5, 5, 7.4, 7.4, 7.4], []),  # below the factor
        ([5, 9, 9, 9, 9], []),  # too early to know the usual loss
        ([None, None], [1]),  # not finite from the start
        ([5, 5, 5, None, 9], [4]),
    ],
)
def test_spikes(losses, expected):
    assert [number for number, spike in enumerate(verdicts(losses)) if spike] == expected


def test_bad_intervals_do_not_change_the_usual_loss():
    """However long the loss stays high."""
    assert verdicts([2, 2, 2] + [9] * 50)[-1]


def test_the_usual_loss_is_the_median_of_twenty_good_intervals():
    """Of ten at 10 and ten at 5 it is 7.5; an eleventh at 10, further back, does not count."""
    assert verdicts([10] * 11 + [5] * 10 + [12, 12])[-1]
    assert not verdicts([10] * 11 + [5] * 9 + [12, 12])[-1]


def test_a_resumed_run_decides_like_one_that_was_not_killed():
    losses = [5, 5, 5, 9, 9, 5, 5, 9]
    for cut in range(len(losses)):
        logged = [{"step": 0, "eval_loss": 3.0}, *map(line, losses[:cut])]
        assert verdicts(losses[cut:], logged) == verdicts(losses)[cut:]


def test_calm():
    guard = guard_after()
    stable = []
    for loss in (5, 5, 5, 9, 5):
        guard.spiked(line(loss))
        stable.append(guard.is_stable)
    assert stable == [True, True, True, False, True]


def test_rolls_back_further_if_a_checkpoint_led_to_a_spike_before():
    guard = guard_after(map(line, (5, 5, 5, 9, 9)))
    assert guard.choose([30, 20, 10]) == 30
    assert guard.rolled_back(30).startswith(
        "The loss is 9.000 instead of about 5.000, in the last of 2 bad intervals in a row: "
    )
    assert guard.choose([30, 20, 10]) == 20
    assert guard.choose([40, 30, 20]) == 40, "saved since and good"
    assert guard.choose([30]) == 30, "the only one"


def test_a_resumed_run_knows_the_roll_back_before():
    """The bad intervals before it are over; the checkpoint that led to them is avoided."""
    bad = [*map(line, (5, 5, 5, 9, 9)), {"step": 50, "rolled_back_to": 30}]
    assert guard_after(bad).is_stable
    assert guard_after(bad).choose([30, 20, 10]) == 20
    assert verdicts([9], bad) == [False]
    assert verdicts([9], bad[:-1]) == [True]
    assert verdicts([9, 9], bad) == [False, True], "the usual loss is still that of the good intervals"


def test_stops_with_advice():
    guard = guard_after(map(line, (5, 5, 5, 9, 9)))
    with pytest.raises(
        InputError, match="no good checkpoint to roll back to. Training diverges: use a lower"
    ):
        guard.choose([])
    guard.rolled_back(1)
    guard.rolled_back(1)
    with pytest.raises(InputError, match="after 2 roll-backs. .* longer warm-up .* float32"):
        guard.rolled_back(1)


def test_another_phase_is_no_spike():
    """Its text may be harder, also if its sequences are as long."""
    at = [line(2, step) for step in range(26, 31)] + [line(5, step) for step in range(31, 36)]
    guard = guard_after(at[:6], ends=(30, 40))  # as if killed after the first interval of the second phase
    assert not any(guard.spiked(each) for each in at[6:])
    assert guard.is_stable
    assert [guard.spiked(line(9, step)) for step in (36, 37)] == [False, True]
