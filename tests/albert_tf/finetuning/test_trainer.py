"""The end of a run, and what its terminal shows."""

import numpy as np
import pytest

from albert_tf.finetuning.seed_folder import SeedFolder
from albert_tf.finetuning.task_data import TaskData
from albert_tf.finetuning.trainer import WORDING, train_seed
from albert_tf.tasks.splits import EncodedSplit
from albert_tf.training.interruptions import Preemption
from albert_tf.training.run_log import TrainingProgress
from albert_tf.training.tensorflow_devices import TensorFlowDevices
from tests.albert_tf.finetuning.plans import plan_of
from tests.albert_tf.tasks.task_models import CASES


def train(folder, evaluate, preemption_class=Preemption) -> dict[str, int]:
    """Trains for two steps with an evaluation after each."""
    rows = [{"input_ids": np.full(6, 7, np.int32), "label": np.int32(0)}] * 2
    plan = plan_of(
        "classification", data=TaskData({"train": [EncodedSplit("train", (), rows)]}, ()), rows=2,
        learning_rate=0.01, num_train_steps=2, num_warmup_steps=0, save_checkpoints_steps=1, log_steps=1,
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    devices = TensorFlowDevices()
    preemption = preemption_class(devices)
    return train_seed(CASES["text"].build(None), plan, SeedFolder(folder), preemption, evaluate, devices)


@pytest.mark.very_slow
def test_without_a_best_evaluation_the_last_weights_are_kept(tmp_path):
    """The evaluations lack the metric, or the run goes on without them."""
    facts = train(tmp_path / "no metric", lambda step: {"eval_examples": 3})
    assert facts == {"steps": 2, "best_step": 2}
    assert (tmp_path / "no metric" / "model.keras").exists()
    falling = train(tmp_path / "evaluated", lambda step: {"eval_accuracy": -step})
    assert falling == {"steps": 2, "best_step": 1}
    assert train(tmp_path / "evaluated", None) == {"steps": 2, "best_step": 2}


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
        return {"eval_accuracy": 0.5}

    assert train(tmp_path, evaluate, InTheLastCall) == {"steps": 2, "best_step": 1}
    assert evaluated == [1, 2]


def test_few_lines_between_evaluations(capfd):
    """In a file, a short run shows its evaluations."""
    progress = TrainingProgress(40, 0, WORDING)
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
