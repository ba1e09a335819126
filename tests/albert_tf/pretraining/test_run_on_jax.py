"""The program on JAX: it resumes to the bit, and runs go on where the other backend has left them."""

import pytest

from albert_cli import cli
from tests.albert_tf.pretraining.test_pretrain import assert_nearly_same_run, assert_same_run
from tests.albert_tf.training.stopped import run_on_jax

pytest.importorskip("jax")
pytestmark = pytest.mark.very_slow


def test_dropout_on_two_devices_resumes_to_the_bit(pretraining_files, tmp_path):
    # The same schedule whatever the number of steps.
    flags = {
        "num_devices": 2,
        "gradient_accumulation_steps": 2,
        "num_warmup_steps": 100,
        "learning_rate": 0.1,
        "backend": "jax",
    }
    whole = pretraining_files.flags(tmp_path / "whole", **flags)
    halves = [
        pretraining_files.flags(tmp_path / "halves", **flags, num_train_steps=steps) for steps in (8, 12)
    ]
    assert "resuming at step 8" in run_on_jax(whole, *halves)
    assert_same_run(tmp_path / "whole", tmp_path / "halves")


def test_backends_take_turns(pretraining_files, without_dropout, tmp_path):
    flags = {"albert_config_file": without_dropout, "num_warmup_steps": 100, "learning_rate": 0.1}
    whole, turns = tmp_path / "whole", tmp_path / "turns"
    assert cli.main(pretraining_files.flags(whole, **flags)) == 0
    assert cli.main(pretraining_files.flags(turns, **flags, num_train_steps=4)) == 0
    run_on_jax(pretraining_files.flags(turns, **flags, num_train_steps=8, backend="jax"))
    assert cli.main(pretraining_files.flags(turns, **flags)) == 0
    assert_nearly_same_run(whole, turns, atol=1e-4)
