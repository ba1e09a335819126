"""The end of a run, the choice of the best evaluation, and how many evaluations follow it."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.recipes import ResolvedSettings
from albert_tf.finetuning.seed_folder import SeedFolder
from albert_tf.finetuning.trainer import (
    FinetuningProgress,
    Trainer,
    best_evaluation,
    evaluations_since_gain,
    last_gain,
)
from albert_tf.training.interruptions import Preemption
from data_prep.errors import InputError
from tests.albert_tf.tasks.task_models import CASES


def train(folder, evaluate, preemption_class=Preemption) -> dict[str, int]:
    """Trains for two steps with an evaluation after each."""
    steps = {"num_train_steps": 2, "num_warmup_steps": 0, "save_checkpoints_steps": 1, "log_steps": 1}
    settings = ResolvedSettings(
        task="classification", output_dir="run", data_dir="data", do_train=True, init_checkpoint="base",
        train_batch_size=2, learning_rate=0.01, dropout=0.0, classifier_dropout=0.0, max_seq_length=6, **steps,
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    model = CASES["text"].build(None)
    preemption = preemption_class(tf.distribute.get_strategy())
    trainer = Trainer(model, settings, SeedFolder(folder), preemption, "eval_f1", evaluate)
    rows = {
        "input_ids": np.full((2, 6), 7),
        "label": np.zeros(2, int),
        "sample_weight": np.ones(2, "float32"),
    }
    return trainer.train(lambda: tf.data.Dataset.from_tensors(rows).repeat())


@pytest.mark.slow
def test_without_a_best_evaluation_the_last_weights_are_kept(tmp_path):
    """The evaluations lack the metric, or the run goes on without them."""
    facts = train(tmp_path / "no metric", lambda step: {"eval_examples": 3})
    assert facts == {"steps": 2, "best_step": 2}
    assert (tmp_path / "no metric" / "model.keras").exists()
    falling = train(tmp_path / "evaluated", lambda step: {"eval_f1": -step})
    assert falling == {"steps": 2, "best_step": 1}
    assert train(tmp_path / "evaluated", None) == {"steps": 2, "best_step": 2}


def test_figures():
    """Of 5 steps of 2 examples in 4 seconds, whose losses have a weight of 10 together."""
    trainer = SimpleNamespace(_settings=SimpleNamespace(train_batch_size=2), step=20)
    sums = {"loss": 8.0, "loss_weight": 10.0, "gradient_norm": 15.0, "skipped_steps": 0.0}
    figures = Trainer._figures(trainer, sums, 5, 4.0)
    assert figures == {"loss": 0.8, "gradient_norm": 3.0, "examples_per_second": 2.5}
    with pytest.raises(InputError, match="diverged: the loss or its gradient is not finite before step 25"):
        Trainer._figures(trainer, {**sums, "skipped_steps": 1.0}, 5, 4.0)


@pytest.mark.slow
def test_the_last_evaluation_takes_place_after_a_sigterm(tmp_path):
    class InTheLastCall(Preemption):
        asked = 0

        def agreed(self):
            self.asked += 1
            return self.asked > 3  # before the first step, after it, after its evaluation

    evaluated: list[int] = []

    def evaluate(step):
        evaluated.append(step)
        return {"eval_f1": 0.5}

    assert train(tmp_path, evaluate, InTheLastCall) == {"steps": 2, "best_step": 1}
    assert evaluated == [1, 2]


def lines(*values: float) -> list[dict]:
    training = [{"step": 1, "loss": 9.0}]
    return training + [{"step": step, "eval_f1": value} for step, value in enumerate(values, start=2)]


def test_the_first_of_equals_is_the_best():
    best = best_evaluation(lines(0.1, 0.5, 0.2, 0.5), "eval_f1")
    assert best == {"step": 3, "eval_f1": 0.5}
    assert evaluations_since_gain(lines(0.1, 0.5, 0.2, 0.5), "eval_f1") == 2


@pytest.mark.parametrize(
    ("losses", "best_step"),
    [((3.0, 2.0, 1.0), 4), ((1.0, 2.0, 3.0), 2), ((math.nan, 2.0, 2.0), 3), ((0.1, math.nan, 3.0), 2)],
)
def test_among_equals_the_loss_decides_but_does_not_delay_early_stopping(losses, best_step):
    evaluations = lines(0.5, 0.5, 0.5, 0.4)
    for line, loss in zip(evaluations[1:], (*losses, 0.0), strict=True):
        line["eval_loss"] = loss
    assert best_evaluation(evaluations, "eval_f1")["step"] == best_step
    assert last_gain(evaluations, "eval_f1")["step"] == 2
    assert evaluations_since_gain(evaluations, "eval_f1") == 3


def test_not_a_number_is_worse_than_every_number():
    assert best_evaluation(lines(math.nan, -0.5, math.nan), "eval_f1") == {"step": 3, "eval_f1": -0.5}


def test_without_evaluations():
    assert best_evaluation(lines(), "eval_f1") is None
    assert last_gain(lines(), "eval_f1") is None
    assert evaluations_since_gain(lines(), "eval_f1") == 0


def test_few_lines_between_evaluations(capfd):
    """In a file, a short run shows its evaluations."""
    progress = FinetuningProgress(num_train_steps=40, start_step=0)
    for step in range(1, 41):
        progress.update(step, {"loss": 0.5, "examples_per_second": 3.0}, 60.0)
        if step % 2 == 0:
            progress.say_evaluation(step, {"eval_accuracy": 0.5, "eval_examples": 8})
    lines = capfd.readouterr().err.splitlines()
    assert lines == [f"dev at step {step}: accuracy 0.5000  examples 8" for step in range(2, 41, 2)]
    progress._last_line -= 60  # as after a minute
    progress.update(2, {"loss": 0.5, "examples_per_second": 3.0}, 61.0)
    lines = capfd.readouterr().err.splitlines()
    assert lines == ["step  2/40  loss 0.500  3.0 examples/s  1:01 left"]
