"""Fine-tuning in two worker processes: the same run, one folder, no hanging process."""

import json
import signal
import time
from pathlib import Path

import pytest

from albert_tf.checkpoints.run_files import read_metrics
from albert_tf.finetuning.seed_folder import SeedFolder
from albert_tf.training.cluster import loopback_clusters
from tests.albert_tf.finetuning.test_finetune import assert_same_weights
from tests.processes import ROOT, Program, run_python, run_workers

pytestmark = pytest.mark.very_slow

# Every step is a call, so that SIGTERM takes effect in the middle of the run.
SHARED = {
    "dropout": 0,
    "classifier_dropout": 0,
    "learning_rate": 1e-4,
    "num_train_steps": 60,
    "save_checkpoints_steps": 20,
    "log_steps": 5,
    "iterations_per_loop": 1,
    "eval_batch_size": 7,
    "do_predict": True,
}


def program(finetuning_files, run: Path, kind: str = "classification", **flags) -> list:
    return [ROOT / "run_finetuning.py", *finetuning_files.flags(run, kind, **{**SHARED, **flags})[1:]]


def files_of(run: Path) -> set[str]:
    return {path.relative_to(run).as_posix() for path in run.rglob("*") if path.parent.name != "tensorboard"}


def assert_same_results(one: Path, other: Path) -> None:
    assert_same_weights(one / "seed_0", other / "seed_0", atol=1e-5)
    evaluations = (
        [line for line in read_metrics(run / "seed_0") if "eval_loss" in line] for run in (one, other)
    )
    for expected, line in zip(*evaluations, strict=True):  # SIGTERM adds a line of training steps
        assert line == pytest.approx(expected, abs=1e-5)
    assert files_of(one) == files_of(other)
    first, second = (SeedFolder.of(run, 0).path / "test_probabilities.jsonl" for run in (one, other))
    for ours, theirs in zip(first.read_text().splitlines(), second.read_text().splitlines(), strict=True):
        ours, theirs = json.loads(ours), json.loads(theirs)
        assert theirs["probabilities"] == pytest.approx(ours["probabilities"], abs=1e-5)


def terminated(command: list, run: Path) -> list[tuple[int, str]]:
    """Status and standard error of two workers, the second of which receives SIGTERM once ten steps are logged."""
    workers = [Program(command, {"TF_CONFIG": cluster}) for cluster in loopback_clusters(2)]
    try:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and not any(
            line["step"] >= 10 for line in read_metrics(run / "seed_0")
        ):
            time.sleep(0.01)
        workers[1].send_signal(signal.SIGTERM)
        errors = [worker.communicate(timeout=240)[1] for worker in workers]
        return [(worker.returncode, error) for worker, error in zip(workers, errors, strict=True)]
    finally:
        for worker in workers:
            worker.__exit__()


def test_two_workers_equal_one_device_after_a_sigterm(finetuning_files, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    run_python(*program(finetuning_files, one))
    command = program(finetuning_files, two)
    for status, error in terminated(command, two):
        assert status == 143, error
    for worker in run_workers(command, command):
        assert worker.returncode == 0, worker.stderr
    assert_same_results(one, two)
    assert len(list((two / "seed_0" / "tensorboard").iterdir())) == 2, "only from the chief, started twice"


def test_workers_that_disagree(finetuning_files, tmp_path):
    commands = [program(finetuning_files, tmp_path / "run", seed=seed) for seed in (1, 2)]
    for worker in run_workers(*commands):
        assert worker.returncode == 2
        assert "albert: All workers must be started with the same flags" in worker.stderr
    assert not (tmp_path / "run").exists() or files_of(tmp_path / "run") <= {".lock"}
