"""The arithmetic of runs; test_lab_run.py trains some of them."""

import json

import pytest

from albert_tf.checkpoints.checkpoint_files import prune, steps_in
from albert_tf.lab.pretraining_runs import (
    PretrainingRuns,
    evaluations,
    fork_step,
    save_interval,
    training_seconds,
)
from albert_tf.lab.text import LabText
from albert_tf.lab.variants import Variant
from data_prep.errors import InputError
from tests.albert_tf.lab.recorder import recorded_laboratory


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 9, 10, 11, 19, 95, 2000, 125_000])
def test_a_fork_starts_from_a_saved_checkpoint(steps):
    interval = save_interval(steps)
    saved = [step for step in range(1, steps + 1) if step % interval == 0 or step == steps]
    assert fork_step(steps) in saved
    assert len(saved) <= 11


def test_the_checkpoint_to_fork_from_survives_interruptions(tmp_path):
    """A run of 100 steps, which SIGTERM ends twice in its second half, and a fork from its middle."""
    runs = PretrainingRuns(LabText(recorded_laboratory(tmp_path, num_train_steps=100)))
    whole = Variant()
    runs.train(whole, 1)
    settings = runs.lab.programs.settings["pretrain"]
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    for step in sorted({*range(10, 101, settings.save_checkpoints_steps), 55, 93}):
        (checkpoints / f"ckpt-{step}.index").touch()
        prune(checkpoints, settings.keep_checkpoint_max, needed=[step])
    assert fork_step(100) in steps_in(checkpoints)
    assert runs.last_checkpoint(whole, 1).endswith("seed-1/checkpoints/ckpt-100")
    runs.train(Variant(start=whole, fork=True), 1)
    assert runs.lab.programs.settings["pretrain"].init_checkpoint.endswith("seed-1/checkpoints/ckpt-50")


def test_each_phase_has_a_step(tmp_path):
    """Short sequences have one of two steps; without them one step will do."""
    runs = PretrainingRuns(LabText(recorded_laboratory(tmp_path, num_train_steps=2)))
    runs.check(Variant())
    runs.train(Variant(), 1)
    phases = runs.lab.programs.settings["pretrain"].phase
    assert ["num_train_steps=1" in phase for phase in phases] == [True, True]
    with pytest.raises(InputError, match="--num_train_steps must be at least 2. Received 1."):
        PretrainingRuns(LabText(recorded_laboratory(tmp_path, num_train_steps=1))).check(Variant())
    one = recorded_laboratory(tmp_path, num_train_steps=1, max_seq_length=32)
    PretrainingRuns(LabText(one)).check(Variant())


def run(folder, lines, **settings):
    folder.mkdir()
    short = {"start_step": 0, "num_train_steps": 30, "train_batch_size": 8, "max_seq_length": 4}
    long = {"start_step": 30, "num_train_steps": 10, "train_batch_size": 6, "max_seq_length": 8}
    settings = {"phases": [short, long], "num_train_steps": 40, "init_optimizer": False, **settings}
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_training_seconds_are_those_of_the_steps(tmp_path):
    lines = [
        {"step": 10, "tokens_per_second": 32.0},  # one step per second
        {"step": 10, "eval_masked_lm_accuracy": 0.1},
        {"step": 30, "tokens_per_second": 64.0},
        {"step": 40, "tokens_per_second": 24.0},  # of 48 tokens
        {"step": 40, "eval_masked_lm_accuracy": 0.2},
    ]
    one = run(tmp_path / "one", lines)
    assert training_seconds(one) == pytest.approx(10 + 10 + 20)
    assert [line["step"] for line in evaluations(one)] == [10, 40]
    forked = run(tmp_path / "forked", lines[2:], init_optimizer=True)  # which began at step 20
    assert training_seconds(forked) == pytest.approx(5 + 20)


def test_an_evaluation_that_a_resumed_run_repeated_counts_once(tmp_path):
    lines = [
        {"step": step, "eval_masked_lm_accuracy": value} for step, value in ((5, 0.1), (9, 0.3), (9, 0.3))
    ]
    assert evaluations(run(tmp_path / "run", lines)) == lines[:2]


def test_a_missing_run_has_no_evaluations(tmp_path):
    assert evaluations(tmp_path / "nowhere") == []
