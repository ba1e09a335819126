"""The program on JAX: all kinds of tasks as on TensorFlow, in runs that either backend has begun."""

import shutil
import signal
from functools import partial
from pathlib import Path

import pytest

from albert_cli import cli
from albert_tf.checkpoints.run_files import read_metrics
from tests.albert_tf.finetuning.test_finetune import (
    assert_predicts_alike,
    assert_same_run,
    assert_same_weights,
    without_speed,
)
from tests.albert_tf.training import stopped

pytest.importorskip("jax")

FOUR_DEVICES = {
    "XLA_FLAGS": "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0",  # compiles sooner
}
SHORT = {"num_train_steps": 4, "num_warmup_steps": 1, "save_checkpoints_steps": 2, "log_steps": 1}
SHORT |= {"do_predict": True, "pad_to_max_length": True}  # batches of one length are compiled once
WITHOUT_DROPOUT = {"dropout": 0, "classifier_dropout": 0}  # whose draws the backends do not share
# The conformance list has all kinds on JAX; these have, between them, the options of training.
OPTIONS = {
    "ordinal-classification": {
        "layer_decay": 0.5,
        "ema_decay": 0.5,
        "class_weights": "balanced",
        "pad_to_max_length": None,
    },
    "multi-label-classification": {"freeze_encoder": True, "optimizer": "lamb", "num_train_steps": 6},
    "squad2.0": {"train_batch_size": 8, "gradient_accumulation_steps": 2, "early_stopping_patience": 1},
    "multiple-choice": {"lora_rank": 2},
}
SIMPLE, *OTHERS = OPTIONS
TURNS = OTHERS[0]  # goes back to TensorFlow for its last two steps
STOPPED = 128 + signal.SIGTERM


run_on_jax = partial(stopped.run_on_jax, environment=FOUR_DEVICES)


@pytest.fixture(scope="module")
def command(finetuning_files):
    """A function: the arguments of a short run, for TensorFlow unless `backend` says otherwise."""

    def arguments(kind: str, run: Path, **changes) -> list[str]:
        flags = {**SHORT, **WITHOUT_DROPOUT, **OPTIONS.get(kind, {}), **changes}
        return finetuning_files.flags(run, kind, **flags)

    return arguments


def begin(command, kind: str, folder: Path) -> list[str]:
    """Takes two steps on TensorFlow, the others in a copy.

    Each backend draws a new head's weights in its own way, so only such runs are equal.

    Returns:
      The command for JAX that goes on.
    """
    assert stopped.run(command(kind, folder / "jax"), after=2) == STOPPED
    shutil.copytree(folder / "jax", folder / "tensorflow")
    assert cli.main(command(kind, folder / "tensorflow")) == 0
    return command(kind, folder / "jax", backend="jax")


def assert_close(run: Path, expected: Path, tolerance: float = 1e-5) -> None:
    """Two seeds have equal losses and metrics, and weights within ten times the tolerance."""
    assert {path.name for path in run.iterdir()} == {path.name for path in expected.iterdir()}
    for line, other in zip(without_speed(run), without_speed(expected), strict=True):
        assert line == pytest.approx(other, rel=tolerance, abs=tolerance)
    assert_same_weights(run, expected, atol=10 * tolerance)


def losses(run: Path) -> list[float]:
    return [line["loss"] for line in read_metrics(run / "seed_0") if "loss" in line]


@pytest.mark.slow
def test_jax_goes_on_as_tensorflow(command, finetuning_files, tmp_path, capfd, standard_input):
    """Then TensorFlow reads what JAX has saved."""
    run_on_jax(begin(command, SIMPLE, tmp_path))
    assert_close(tmp_path / "jax" / "seed_0", tmp_path / "tensorflow" / "seed_0")
    assert_predicts_alike(finetuning_files, tmp_path / "jax", SIMPLE, capfd, standard_input)


@pytest.fixture(scope="module")
def runs(command, tmp_path_factory) -> Path:
    """The folder of runs: KIND/jax and KIND/tensorflow."""
    folder = tmp_path_factory.mktemp("runs")
    commands = {kind: begin(command, kind, folder / kind) for kind in OTHERS}
    run_on_jax((commands.pop(TURNS), 4, "SIGTERM"), *commands.values())
    assert cli.main(command(TURNS, folder / TURNS / "jax")) == 0
    return folder


@pytest.mark.very_slow
@pytest.mark.parametrize("kind", OTHERS)
def test_other_kinds(runs, finetuning_files, kind, capfd, standard_input):
    assert_close(runs / kind / "jax" / "seed_0", runs / kind / "tensorflow" / "seed_0")
    assert_predicts_alike(finetuning_files, runs / kind / "jax", kind, capfd, standard_input)


@pytest.mark.very_slow
def test_one_device_and_four_killed_and_resumed(command, tmp_path):
    """With dropout, whose masks depend on the step and the number of the micro-batch over all devices."""
    run = {name: tmp_path / name for name in ("four", "one", "killed", "half")}
    options = {"dropout": 0.1, "classifier_dropout": 0.1, "backend": "jax"}
    one = {**options, "num_devices": 1, "gradient_accumulation_steps": 4}
    half = {**options, "mixed_precision": "bfloat16"}
    killed = command("classification", run["killed"], **options)
    commands = [
        command("classification", run["four"], **options),
        command("classification", run["one"], **one),
        command("classification", run["half"], **half),
        (killed, 2, "SIGKILL"),
    ]
    run_on_jax(*commands, status=-signal.SIGKILL)
    assert_close(run["one"] / "seed_0", run["four"] / "seed_0", 1e-6)
    assert losses(run["half"]) != losses(run["four"])
    assert losses(run["half"]) == pytest.approx(losses(run["four"]), abs=0.05)
    run_on_jax(killed)
    assert_same_run(run["killed"] / "seed_0", run["four"] / "seed_0")
