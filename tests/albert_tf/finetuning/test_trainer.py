"""The choice of the best evaluation, and how many evaluations follow it."""

import math

from albert_tf.finetuning.trainer import FinetuningProgress, best_evaluation, evaluations_since_best


def lines(*values: float) -> list[dict]:
    training = [{"step": 1, "loss": 9.0}]
    return training + [{"step": step, "eval_f1": value} for step, value in enumerate(values, start=2)]


def test_the_first_of_equals_is_the_best():
    best = best_evaluation(lines(0.1, 0.5, 0.2, 0.5), "eval_f1")
    assert best == {"step": 3, "eval_f1": 0.5}
    assert evaluations_since_best(lines(0.1, 0.5, 0.2, 0.5), "eval_f1") == 2


def test_not_a_number_is_worse_than_every_number():
    assert best_evaluation(lines(math.nan, -0.5, math.nan), "eval_f1") == {"step": 3, "eval_f1": -0.5}


def test_without_evaluations():
    assert best_evaluation(lines(), "eval_f1") is None
    assert evaluations_since_best(lines(), "eval_f1") == 0


def test_few_lines_between_evaluations(capfd):
    """In a file, a short run shows its evaluations; the time left is unknown until a step was timed."""
    progress = FinetuningProgress(num_train_steps=40, start_step=0)
    for step in range(1, 41):
        progress.update(step, {"loss": 0.5, "examples_per_second": 3.0}, 60.0)
        if step % 2 == 0:
            progress.say_evaluation(step, {"eval_accuracy": 0.5, "eval_examples": 8})
    lines = capfd.readouterr().err.splitlines()
    assert lines == [f"dev at step {step}: accuracy 0.5000  examples 8" for step in range(2, 41, 2)]
    progress._last_line -= 60  # as after a minute
    progress.update(1, {"loss": 0.5}, None)
    progress._last_line -= 60
    progress.update(2, {"loss": 0.5, "examples_per_second": 3.0}, 61.0)
    lines = capfd.readouterr().err.splitlines()
    assert lines == ["step  1/40  loss 0.500", "step  2/40  loss 0.500  3.0 examples/s  1:01 left"]
