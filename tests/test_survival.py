"""Runs that receive SIGTERM, fill their disk, have damaged checkpoints, lose a worker, or collapse."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from albert_cli import cli
from albert_tf.checkpoints.run_files import read_metrics
from albert_tf.training.cluster import loopback_clusters
from albert_tf.training.step_loop import StepLoop
from tests.albert_tf.pretraining.test_pretrain import assert_same_run, without_speed
from tests.disks import mounted_disk
from tests.processes import ROOT, Program, run_together

pytestmark = pytest.mark.very_slow

LONG = {"num_train_steps": 300, "save_checkpoints_steps": 100, "log_steps": 10}


@pytest.fixture(scope="module")
def finished(pretraining_files, tmp_path_factory) -> Path:
    """An uninterrupted run of 12 steps."""
    run = tmp_path_factory.mktemp("finished") / "run"
    assert cli.main(pretraining_files.flags(run)) == 0
    return run


def program(pretraining_files, run: Path, **flags) -> list:
    return [ROOT / "run_pretraining.py", *pretraining_files.flags(run, **flags)[1:]]


def wait_for_step(process: Program, run: Path, step: int) -> None:
    """Waits until a line of this step or a later one is logged."""
    deadline = time.monotonic() + 240
    while not any(line["step"] >= step for line in read_metrics(run)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def checkpoint_steps(run: Path) -> set[int]:
    return {int(path.stem.split("-")[1]) for path in (run / "checkpoints").glob("*.index")}


@pytest.mark.journey
def test_sigterm_saves_and_the_same_command_resumes(pretraining_files, tmp_path):
    run, whole = tmp_path / "run", tmp_path / "whole"
    flags = {"num_train_steps": 200, "save_checkpoints_steps": 200, "log_steps": 10, "iterations_per_loop": 1}
    flags |= {"eval_file": None, "do_eval": None}
    command = program(pretraining_files, run, **flags)
    with Program(command) as process:
        wait_for_step(process, run, 20)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=120)
    assert process.returncode == 143
    (step,) = checkpoint_steps(run)
    assert 20 <= step < 200
    assert error.splitlines()[-1].startswith(f"albert: received SIGTERM: step {step} is saved")
    assert cli.main(pretraining_files.flags(run, **flags)) == 0
    assert cli.main(pretraining_files.flags(whole, **flags)) == 0
    assert_same_run(run, whole)
    logged, expected = ([line["step"] for line in read_metrics(each)] for each in (run, whole))
    assert logged == expected


def test_sigterm_while_evaluating(pretraining_files, tmp_path):
    """The checkpoint is already saved; the resumed run evaluates first."""
    run = tmp_path / "run"
    flags = {"eval_batch_size": 1, "num_train_steps": 8, "log_steps": 4}
    command = program(pretraining_files, run, **flags)
    with Program(command) as process:
        wait_for_step(process, run, 4)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 143
    assert cli.main(pretraining_files.flags(run, **flags)) == 0
    assert cli.main(pretraining_files.flags(tmp_path / "whole", **flags)) == 0
    assert without_speed(run) == without_speed(tmp_path / "whole")
    assert_same_run(run, tmp_path / "whole")


def test_sigterm_during_the_last_steps(pretraining_files, tmp_path, monkeypatch):
    """The state is saved; the resumed run only evaluates."""
    run, take_steps = tmp_path / "run", StepLoop.run

    def interrupted(loop, start, target, stops):
        if target == 12:
            signal.raise_signal(signal.SIGTERM)
        return take_steps(loop, start, target, stops)

    with monkeypatch.context() as patched:
        patched.setattr(StepLoop, "run", interrupted)
        assert cli.main(pretraining_files.flags(run)) == 143
    assert max(checkpoint_steps(run)) == 12
    assert cli.main(pretraining_files.flags(run)) == 0
    evaluated = [line["step"] for line in read_metrics(run) if "eval_loss" in line]
    assert evaluated == [4, 8, 12]


def test_an_older_damaged_checkpoint_does_not_matter(finished, pretraining_files, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "checkpoints" / "ckpt-4.json").write_bytes(b"")
    assert cli.main(pretraining_files.flags(run)) == 0


def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_used(
    finished, pretraining_files, tmp_path, capfd
):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    path = run / "checkpoints" / "ckpt-12.data-00000-of-00001"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    capfd.readouterr()
    assert cli.main(pretraining_files.flags(run)) == 0
    error = capfd.readouterr().err
    assert error.count("the checkpoint of step 12") == 1
    assert "resuming at step 8 of the run" in error
    assert_same_run(run, finished)
    assert without_speed(run) == without_speed(finished)


def test_no_checkpoint_is_intact(finished, pretraining_files, tmp_path, capfd):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    for path in (run / "checkpoints").glob("*.data*"):
        os.truncate(path, path.stat().st_size - 1)
    capfd.readouterr()
    assert cli.main(pretraining_files.flags(run)) == 2
    *damaged, last = capfd.readouterr().err.splitlines()
    assert len(damaged) == 3
    assert last.startswith("albert: None of the 3 checkpoints in")


def test_full_disk(finished, pretraining_files, tmp_path):
    """A disk too small for all checkpoints."""
    checkpoints = sum(path.stat().st_size for path in (finished / "checkpoints").iterdir()) // 3
    others = sum(path.stat().st_size for path in finished.glob("*") if path.is_file())
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted_disk(disk, f"size={(others + int(1.7 * checkpoints)) // 1024 + 60}k"):
        run = disk / "run"
        (result,) = run_together([program(pretraining_files, run)], [{}], timeout=240)
        assert result.returncode == 2, result.stderr
        assert "Traceback" not in result.stderr
        assert f"albert: The disk of {run} is full" in result.stderr.splitlines()[-1]
        steps = checkpoint_steps(run)
        assert {4} <= steps < {4, 8, 12}
        last = result.stderr.splitlines()[-1]
        assert "No space left on device. Free some space and use the same command" in last
        assert last.endswith(f"the run resumes at step {max(steps)}.")
        subprocess.run(["mount", "-o", "remount,size=100m", disk], check=True)
        assert cli.main(pretraining_files.flags(run)) == 0
        assert_same_run(run, finished)
        assert without_speed(run) == without_speed(finished)


def test_file_size_limit(finished, pretraining_files, tmp_path):
    """The same with a limit on the size of files, which does not need root."""
    run = tmp_path / "run"
    assert cli.main(pretraining_files.flags(run, num_train_steps=4, learning_rate=0.01)) == 0
    limit = (run / "checkpoints" / "ckpt-4.data-00000-of-00001").stat().st_size // 2
    (run / "spm.model").unlink()  # is larger than that
    flags = {"num_train_steps": 8, "spm_model_file": None}
    result = subprocess.run(
        [sys.executable, *program(pretraining_files, run, **flags)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert result.returncode == 2, result.stderr
    assert f"albert: The disk of {run} is full" in result.stderr.splitlines()[-1]
    assert checkpoint_steps(run) == {4}


def test_a_run_that_diverges_rolls_back_and_stops_with_advice(pretraining_files, tmp_path, capfd):
    run = tmp_path / "run"
    flags = {"save_checkpoints_steps": 10, "log_steps": 2, "num_warmup_steps": 1}
    flags |= {
        "spike_factor": 1.2,
        "spike_intervals": 2,
        "max_rollbacks": 2,
        "eval_file": None,
        "do_eval": None,
    }
    assert cli.main(pretraining_files.flags(run, **flags, num_train_steps=20, learning_rate=0.001)) == 0
    capfd.readouterr()
    arguments = pretraining_files.flags(run, **flags, num_train_steps=200, learning_rate=30)
    assert cli.main(arguments) == 2
    error = capfd.readouterr().err
    assert error.count("resuming with the weights of step") == 2
    assert "(roll-back 2 of at most 2)" in error
    assert "after 2 roll-backs. Training diverges: use a lower --learning_rate" in error.splitlines()[-1]
    backs = [line for line in read_metrics(run) if "rolled_back_to" in line]
    assert [line["rolled_back_to"] for line in backs] == [20, 10, 20]
    steps = [line["step"] for line in read_metrics(run)]
    assert steps == sorted(steps), "the step is not rolled back"

    # The last weights are good, and train on with a lower rate.
    usual = [line["loss"] for line in read_metrics(run) if line["step"] <= 20 and "loss" in line][-1]
    last = backs[-1]["step"]
    arguments = pretraining_files.flags(run, **flags, num_train_steps=last + 20, learning_rate=0.001)
    assert cli.main(arguments) == 0
    losses = [line["loss"] for line in read_metrics(run) if line["step"] > last]
    assert losses
    assert max(losses) < 1.2 * usual


@contextlib.contextmanager
def two_workers(pretraining_files, run: Path, save_checkpoints_steps: int) -> Iterator[list[Program]]:
    """An endless run in two processes, after 40 steps."""
    flags = {**LONG, "num_train_steps": 100_000, "save_checkpoints_steps": save_checkpoints_steps}
    flags |= {"eval_file": None, "do_eval": None}
    command = program(pretraining_files, run, **flags)
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(Program(command, {"TF_CONFIG": cluster})) for cluster in loopback_clusters(2)
        ]
        wait_for_step(processes[0], run, 40)
        yield processes


def test_a_dead_worker_stops_the_other(pretraining_files, tmp_path):
    """kill -9 of one of two; the other stops within two minutes and reports it."""
    run = tmp_path / "run"
    with two_workers(pretraining_files, run, save_checkpoints_steps=20) as (first, second):
        second.kill()
        _, error = first.communicate(timeout=120)
        assert first.returncode == 2, error
    assert "albert: Another worker stopped, so this one stops too" in error
    assert f"the run resumes at step {max(checkpoint_steps(run))}." in error


def test_sigterm_to_one_worker_stops_both(pretraining_files, tmp_path):
    run = tmp_path / "run"
    with two_workers(pretraining_files, run, save_checkpoints_steps=100_000) as processes:
        processes[1].send_signal(signal.SIGTERM)
        errors = [process.communicate(timeout=120)[1] for process in processes]
        assert [process.returncode for process in processes] == [143, 143], errors
    (step,) = checkpoint_steps(run)
    assert all(f"step {step} is saved" in error for error in errors)
