"""Pretraining by two processes of JAX: the steps of one process, one folder, one answer to wrong flags."""

import glob
from pathlib import Path

import pytest

from tests.albert_tf.pretraining.test_pretrain import assert_nearly_same_run
from tests.albert_tf.training import stopped
from tests.processes import ROOT, run_on_jax

pytestmark = pytest.mark.very_slow


def command(files, run: Path, **flags) -> list:
    return [ROOT / "run_pretraining.py", *files.flags(run, **flags)[1:]]


def test_two_processes_resume_the_run_of_one(pretraining_files, without_dropout, tmp_path):
    first_file = sorted(glob.glob(pretraining_files.train))[0]  # noqa: PTH207 - of two, each process would read one
    flags = {
        "albert_config_file": without_dropout,
        "input_file": first_file,
        "train_batch_size": 16,
        "num_warmup_steps": 100,
        "learning_rate": 0.1,
        "num_devices": 2,
        "gradient_accumulation_steps": 2,
        "remat": "layers",
    }
    stopped.run_on_jax(
        pretraining_files.flags(tmp_path / "whole", **flags, backend="jax", num_train_steps=8),
        pretraining_files.flags(tmp_path / "halves", **flags, backend="jax", num_train_steps=4),
    )
    halves = command(pretraining_files, tmp_path / "halves", **{**flags, "num_devices": 1}, num_train_steps=8)
    for process in run_on_jax(halves, halves):
        assert process.returncode == 0, process.stderr
    assert_nearly_same_run(tmp_path / "whole", tmp_path / "halves", atol=1e-6)


def test_processes_that_disagree(pretraining_files, tmp_path):
    commands = [command(pretraining_files, tmp_path / "run", seed=seed) for seed in (1, 2)]
    for process in run_on_jax(*commands):
        assert process.returncode == 2
        assert "albert: All workers must be started with the same flags" in process.stderr
    assert not (tmp_path / "run").exists()
    commands = [command(pretraining_files, tmp_path / "run", num_devices=number) for number in (1, 2)]
    for process in run_on_jax(*commands):
        assert process.returncode == 2
        assert "All processes must have the same number of devices" in process.stderr
