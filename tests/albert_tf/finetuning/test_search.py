"""Successive halving of learning rates, without training."""

import io
import math

import pytest
from rich.console import Console

from albert_tf.finetuning.search import (
    FACTORS,
    search_learning_rate,
    search_table,
    successive_halving,
    trial_plan,
)
from albert_tf.finetuning.task_data import TaskData
from albert_tf.tasks.splits import EncodedSplit
from data_prep.errors import InputError
from tests.albert_tf.finetuning.plans import plan_of

USUAL = 8e-5
RATES = [factor * USUAL for factor in FACTORS]  # 1e-5 to 3.2e-4


def halved(score, budget=120):
    """What is found if the metric is `score(rate, round)`; None is a training that has failed."""
    calls = []

    def attempt(rate, number, steps):
        calls.append((rate, number, steps))
        value = score(rate, number)
        dev = {"accuracy": value, "loss": 1.0} if value is not None else {}
        return {"dev": dev} if value is not None else {"failed": "training diverged"}

    return *successive_halving(USUAL, budget, attempt, "accuracy"), calls


def test_the_better_half_is_trained_twice_as_long():
    best, trials, calls = halved(lambda rate, number: -abs(math.log(rate / 4e-5)))
    assert best == pytest.approx(4e-5)
    assert [rate for rate, number, _ in calls if number == 1] == RATES
    assert [rate for rate, number, _ in calls if number == 2] == pytest.approx([2e-5, 4e-5, 8e-5])
    assert {(number, steps) for _, number, steps in calls} == {(1, 10), (2, 20)}
    assert sum(trial.steps for trial in trials) == 120


def test_the_last_round_decides():
    best, _, _ = halved(lambda rate, number: rate if number == 1 else -rate)
    assert best == pytest.approx(RATES[3])


def test_a_failed_rate_is_the_worst():
    """Whatever its metric; one that has failed in the last round is not the best."""
    best, trials, calls = halved(lambda rate, number: None if rate > 2e-5 else rate)
    assert best == pytest.approx(2e-5)
    assert [trial.failed for trial in trials if trial.learning_rate > 2e-5] == ["training diverged"] * 5
    assert halved(lambda rate, number: None if number == 2 else rate)[0] == pytest.approx(RATES[-1])
    best, trials, calls = halved(lambda rate, number: None)
    assert best is None
    assert len(calls) == len(RATES)  # no second round


def test_ties():
    """Of equal metrics the lower loss, then the lower rate; NaN is worse than any number."""
    assert halved(lambda rate, number: 0.5)[0] == pytest.approx(RATES[0])
    assert halved(lambda rate, number: 0.1 if rate == RATES[2] else math.nan)[0] == RATES[2]

    def attempt(rate, number, steps):
        return {"dev": {"accuracy": 0.5, "loss": abs(rate - RATES[4])}}

    assert successive_halving(USUAL, 120, attempt, "accuracy")[0] == RATES[4]


def test_a_small_budget_is_a_step_each():
    assert {steps for _, _, steps in halved(lambda rate, number: rate, budget=3)[2]} == {1}


def data() -> TaskData:
    splits = {role: [EncodedSplit(role, (), [{}] * 1000)] for role in ("train", "dev", "test")}
    return TaskData(splits, ())


def search_plan(**flags):
    return plan_of("classification", data=data(), do_eval=True, learning_rate="search", **flags)


def test_a_plan_has_the_usual_rate_and_its_trials_a_whole_schedule():
    plan = search_plan(num_train_steps=200, num_warmup_steps=20, seed=5)
    assert plan.learning_rate == 2e-5
    trial = trial_plan(plan, 1e-5, 2, 50)
    assert (trial.learning_rate, trial.num_train_steps, trial.num_warmup_steps) == (1e-5, 50, 5)
    assert (trial.seed, list(trial.seed_numbers), trial.save_checkpoints_steps) == (6, [6], 50)
    assert trial.folder == plan.folder / "search" / "round_2" / "rate_1e-05"
    assert set(trial.data.splits) == {"train", "dev"}


def test_the_plan_goes_on_with_the_best_rate(capfd):
    plan = search_plan(num_train_steps=30)
    found, trials = search_learning_rate(plan, lambda trial: {"dev": {"accuracy": trial.learning_rate}})
    assert found.learning_rate == 4 * 2e-5
    assert sum(trial.steps for trial in trials) == 2 * 30
    error = capfd.readouterr().err
    assert "search of the learning rate, 60 steps" in error
    assert error.count("stopped") == 3 + 2
    found, _ = search_learning_rate(plan, lambda trial: {"failed": "training diverged"})
    assert found.learning_rate == 2e-5
    assert (
        "the search saw no rate learn in 5 steps; training with the usual one, 2e-05"
        in capfd.readouterr().err
    )


def test_the_table():
    best, trials, _ = halved(lambda rate, number: None if rate > 1e-4 else rate * 1000)
    text = io.StringIO()
    Console(file=text, width=120).print(search_table(trials, best, "accuracy"))
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in text.getvalue().splitlines()
        if "│" in line
    ]
    assert rows[0] == ["1", "1e-05", "10", "0.0100", "1.0000", "stopped"]
    assert rows[3] == ["1", "8e-05", "10", "0.0800", "1.0000", ""]
    assert rows[4] == ["1", "0.00016", "10", "", "", "training diverged"]
    assert rows[8] == ["2", "8e-05", "20", "0.0800", "1.0000", "best"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"learning_rate": "search"}, "--learning_rate=search needs a dev set"),
        (
            {"learning_rate": "search", "do_eval": True, "optimizer": "lamb"},
            "needs a number as --learning_rate",
        ),
        ({"search_steps": 0}, "--search_steps must be at least 1"),
        ({"restarts": -1}, "--restarts must be at least 0"),
    ],
)
def test_bad_flags(flags, message):
    with pytest.raises(InputError, match=message):
        plan_of("classification", **flags)
