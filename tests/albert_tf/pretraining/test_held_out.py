"""The best checkpoint, early stopping and memorization, from the lines of metrics.jsonl alone."""

import math

import pytest

from albert_tf.pretraining.held_out import HeldOut
from tests.albert_tf.pretraining.resolved import resolved

PHASES = ("input_file=a num_train_steps=100", "input_file=b eval_file=c num_train_steps=900")


def lines(held_out, training=()) -> list[dict]:
    """A training and an evaluation line for every 100 steps."""
    training = training or [5.0] * len(held_out)
    return [
        {"step": 100 * number, name: loss}
        for number, pair in enumerate(zip(training, held_out, strict=True), start=1)
        for name, loss in zip(("loss", "eval_loss"), pair, strict=True)
    ]


def follow(held_out, training=(), **flags) -> HeldOut:
    settings = resolved((32, 5), (128, 20), phase=PHASES, do_eval=True, **flags)
    return HeldOut(settings, lines([1.0, *held_out], training and [9.0, *training]))


@pytest.mark.parametrize(
    ("held_out", "best"),
    [([], None), ([5.0], 200), ([5, 4, 6], 300), ([5, 4, 4], 300), ([math.nan, 6], 300), ([math.nan], 200)],
)
def test_the_best_step_of_the_last_phase(held_out, best):
    """The evaluation at step 100, of the first phase, is lower than all others."""
    followed = follow(held_out)
    assert followed.best_step == best
    assert math.isnan(followed.best_loss) == (best is None or held_out == [math.nan])


@pytest.mark.parametrize(
    ("held_out", "over"),
    [([5], False), ([5, 6], False), ([5, 6, 6], True), ([5, 6, 4], False), ([5, 6, 4, 4, 4], True)],
)
def test_patience(held_out, over):
    assert follow(held_out, early_stopping_patience=2).is_over == over
    assert not follow(held_out).is_over


def test_repeated_evaluations_of_a_step_count_once():
    followed = follow([5, 6], early_stopping_patience=2)
    followed.add({"step": 300, "eval_loss": 4.0})
    assert followed.best_step == 200
    assert not followed.is_over


def test_evaluations_without_training_decide_nothing():
    """They may be of other text."""
    followed = follow([5, 6], early_stopping_patience=2)
    followed.add({"step": 350, "eval_loss": 4.0, "evaluation_alone": 1})
    assert followed.best_step == 200
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
