"""The best evaluation, early stopping and memorization, from the lines of metrics.jsonl alone."""

import math

import pytest

from albert_tf.training.held_out import HeldOut


def lines(held_out, training=()) -> list[dict]:
    """A training and an evaluation line for every 100 steps; the first evaluation is of an earlier phase."""
    training = [9.0, *training] if training else [5.0] * (len(held_out) + 1)
    return [
        {"step": 100 * number, name: loss}
        for number, pair in enumerate(zip(training, [1.0, *held_out], strict=True), start=1)
        for name, loss in zip(("loss", "eval_loss"), pair, strict=True)
    ]


def follow(held_out, training=(), patience=None) -> HeldOut:
    return HeldOut(lines(held_out, training), patience=patience, after=100)


@pytest.mark.parametrize(
    ("held_out", "best"),
    [([], None), ([5.0], 200), ([5, 4, 6], 300), ([5, 4, 4], 300), ([math.nan, 6], 300), ([math.nan], 200)],
)
def test_the_lowest_loss_of_the_last_phase_is_the_best(held_out, best):
    """The evaluation at step 100, of the first phase, is lower than all others."""
    followed = follow(held_out)
    assert (followed.best and followed.best["step"]) == best
    assert followed.evaluated == {100 * number for number in range(1, len(held_out) + 2)}


@pytest.mark.parametrize(
    ("held_out", "over"),
    [([5], False), ([5, 6], False), ([5, 6, 6], True), ([5, 6, 4], False), ([5, 6, 4, 4, 4], True)],
)
def test_patience(held_out, over):
    followed = follow(held_out, patience=2)
    assert followed.is_over == over
    assert not over or followed.reason.startswith(
        "2 evaluations without a better held-out loss than at step "
    )
    assert not follow(held_out).is_over


@pytest.mark.parametrize(
    "line", [{"step": 300, "eval_loss": 4.0}, {"step": 350, "eval_loss": 4.0, "evaluation_alone": 1}]
)
def test_evaluations_that_decide_nothing(line):
    """Of a step that was evaluated before; or without training, perhaps of other text."""
    followed = follow([5, 6], patience=2)
    followed.add(line)
    assert followed.best["step"] == 200
    assert not followed.is_over


@pytest.mark.parametrize(
    ("held_out", "training", "memorizes"),
    [
        ([5, 6, 7], [5, 4, 3], True),
        ([5, 6, 7], [5, 4, 5], False),
        ([5, 6, 6], [5, 4, 3], False),
        ([6, 5, 7], [5, 4, 3], False),
        ([5, 6, 7, 4], [5, 4, 3, 3], True),  # it did once
        ([6, 7], [5, 4], False),  # the evaluation before these is of another phase
    ],
)
def test_memorization(held_out, training, memorizes):
    assert follow(held_out, training).memorizes == memorizes


def scored(*values: float, losses=()) -> HeldOut:
    """Evaluations from step 2 on, of which more is better."""
    followed = HeldOut([{"step": 1, "loss": 9.0}], "eval_f1", patience=3)
    for step, value in enumerate(values, start=2):
        loss = {"eval_loss": losses[step - 2]} if losses else {}
        followed.add({"step": step, "eval_f1": value, **loss})
    return followed


def test_the_first_of_equals_is_the_best():
    assert scored(0.1, 0.5, 0.2, 0.5).best == {"step": 3, "eval_f1": 0.5}
    assert not scored(0.1, 0.5, 0.2, 0.5).is_over
    followed = scored(0.1, 0.5, 0.2, 0.5, 0.1)
    assert followed.is_over
    assert followed.reason == "3 evaluations without a better f1 than at step 3"


@pytest.mark.parametrize(
    ("losses", "best_step"),
    [((3.0, 2.0, 1.0), 4), ((1.0, 2.0, 3.0), 2), ((math.nan, 2.0, 2.0), 3), ((0.1, math.nan, 3.0), 2)],
)
def test_among_equals_the_loss_decides_but_does_not_delay_early_stopping(losses, best_step):
    followed = scored(0.5, 0.5, 0.5, 0.4, losses=(*losses, 0.0))
    assert followed.best["step"] == best_step
    assert followed.is_over
    assert followed.reason.endswith("at step 2")


def test_not_a_number_is_worse_than_every_number():
    assert scored(math.nan, -0.5, math.nan).best == {"step": 3, "eval_f1": -0.5}
