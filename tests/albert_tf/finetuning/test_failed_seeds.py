"""Seeds that have learned nothing, their restarts, and the search, by the whole program."""

import json
import shutil
from pathlib import Path

import pytest

from albert_cli import cli
from albert_tf.checkpoints.run_files import best_seed_folder, read_metrics
from tests.albert_tf.tasks.files import write_classes
from tests.albert_tf.training import stopped

SIGTERM = 128 + 15
FAR_TOO_HIGH = {"learning_rate": 0.5, "num_warmup_steps": 0, "dropout": 0}


@pytest.fixture(scope="module")
def dev_file(tmp_path_factory) -> Path:
    return write_classes(tmp_path_factory.mktemp("dev") / "dev.csv", 40, 7)


def results_of(run: Path) -> dict:
    return json.loads((run / "results.json").read_text())


def rates(run: Path) -> dict[str, float]:
    """The learning rate of each training in a run's folder."""
    return {
        path.parent.name: json.loads(path.read_text())["learning_rate"]
        for path in run.rglob("settings.json")
        if "search" not in path.parts
    }


@pytest.fixture(scope="module")
def failed(finetuning_files, dev_file, tmp_path_factory) -> Path:
    """A run whose seed collapses at a rate that is far too high, and again at half of it."""
    run = tmp_path_factory.mktemp("failed") / "run"
    assert cli.main(finetuning_files.flags(run, dev_file=dev_file, restarts=1, **FAR_TOO_HIGH)) == 0
    return run


@pytest.mark.slow
def test_a_failed_seed_begins_again_at_half_the_rate(failed):
    assert rates(failed) == {"seed_0_1": 0.5, "seed_0": 0.25}
    (seed,) = results_of(failed)["seeds"]
    assert "of 40 predictions are '" in seed["failed"]
    assert [one["learning_rate"] for one in seed["restarts"]] == [0.5]
    assert "of 40 predictions are '" in seed["restarts"][0]["failed"]
    assert best_seed_folder(failed) == failed / "seed_0"
    left = {path.name for path in (failed / "failed" / "seed_0_1").iterdir()}
    assert left == {"settings.json", "data.json", "metrics.jsonl", "training.json", "results.json"}


@pytest.mark.very_slow
def test_the_same_command_only_evaluates_and_more_restarts_go_on(
    failed, finetuning_files, dev_file, tmp_path, capfd
):
    run = shutil.copytree(failed, tmp_path / "run")
    flags = {"dev_file": dev_file, **FAR_TOO_HIGH}
    capfd.readouterr()
    assert cli.main(finetuning_files.flags(run, restarts=1, **flags)) == 0
    error = capfd.readouterr().err
    assert "seed_0 is already trained" in error
    assert "warning: seed 0 failed: " in error
    assert "try a lower --learning_rate, --learning_rate=search or --restarts=3" in error
    assert "the seed has failed" in error
    assert results_of(run) == results_of(failed)
    assert cli.main(finetuning_files.flags(run, restarts=2, **flags)) == 0
    assert rates(run) == {"seed_0_1": 0.5, "seed_0_2": 0.25, "seed_0": 0.125}


@pytest.mark.very_slow
def test_a_restart_that_is_interrupted_goes_on(failed, finetuning_files, dev_file, tmp_path):
    """In the second training, whose checkpoint of step 4 is the first of the run if the first was moved away."""
    command = finetuning_files.flags(tmp_path / "run", dev_file=dev_file, restarts=1, **FAR_TOO_HIGH)
    (tmp_path / "run").mkdir()
    shutil.copytree(failed / "failed", tmp_path / "run" / "failed")
    assert stopped.run(command, after=4) == SIGTERM
    assert cli.main(command) == 0
    assert results_of(tmp_path / "run") == results_of(failed)


@pytest.mark.very_slow
def test_divergence_is_a_failure_if_restarts_are_left(finetuning_files, tmp_path, capfd):
    flags = {"learning_rate": 1e30, "num_warmup_steps": 0, "num_train_steps": 4}
    assert cli.main(finetuning_files.flags(tmp_path / "run", restarts=1, **flags)) == 2
    error = capfd.readouterr().err
    assert "seed 0 failed: training diverged; it begins again at half the learning rate" in error
    assert "Training diverged: the loss or its gradient is not finite" in error.splitlines()[-1]
    assert rates(tmp_path / "run") == {"seed_0_1": 1e30, "seed_0": 5e29}


@pytest.mark.very_slow
def test_a_search_is_reproducible_and_resumes(finetuning_files, dev_file, tmp_path, monkeypatch, capfd):
    """The finished trainings of an interrupted search are not repeated."""
    monkeypatch.setattr("albert_tf.finetuning.search.FACTORS", (0.125, 0.25))

    def command(name, **changes):
        flags = {
            "dev_file": dev_file,
            "learning_rate": "search",
            "search_steps": 12,
            "num_train_steps": 18,
            "num_warmup_steps": None,
        }
        return finetuning_files.flags(tmp_path / name, log_steps=1, **{**flags, **changes})

    assert cli.main(command("whole")) == 0
    whole = results_of(tmp_path / "whole")
    trials = whole["search"]
    assert [(trial["round"], trial["steps"]) for trial in trials] == [(1, 3)] * 2 + [(2, 6)]
    assert stopped.run(command("again"), after=6) == SIGTERM  # in the second round
    first = tmp_path / "again" / "search" / "round_1"
    before = {path: path.stat().st_mtime_ns for path in first.rglob("metrics.jsonl")}
    assert len(before) == 2
    assert not [*first.rglob("model.keras")]
    assert cli.main(command("again")) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert results_of(tmp_path / "again") == whole
    assert read_metrics(tmp_path / "again" / "seed_0")[-1]["step"] == 18
    found = rates(tmp_path / "again")["seed_0"]
    assert found in [trial["learning_rate"] for trial in trials if trial["round"] == 2] or found == 2e-4
    # Other flags than the search began with are refused before it trains anything.
    assert cli.main(command("again", train_batch_size=2)) == 2
    assert "--train_batch_size is 4, received 2" in capfd.readouterr().err
