"""The program on JAX: it resumes to the bit, and runs go on where the other backend has left them."""

import json
from pathlib import Path

import numpy as np
import pytest

from albert_cli import cli
from tests.albert_tf.pretraining.test_pretrain import assert_same_run, everything_in, without_speed
from tests.processes import ROOT, run_on_jax

pytest.importorskip("jax")
pytestmark = pytest.mark.very_slow


def pretrain_on_jax(pretraining_files, run: Path, **flags) -> str:
    """Runs the program; returns its standard error."""
    (result,) = run_on_jax([ROOT / "run_pretraining.py", *pretraining_files.flags(run, **flags)[1:]])
    assert result.returncode == 0, result.stderr
    return result.stderr


def test_dropout_on_two_devices_resumes_to_the_bit(pretraining_files, tmp_path):
    # The same schedule whatever the number of steps.
    flags = {
        "num_devices": 2,
        "gradient_accumulation_steps": 2,
        "num_warmup_steps": 100,
        "learning_rate": 0.1,
    }
    pretrain_on_jax(pretraining_files, tmp_path / "whole", **flags)
    for steps in (8, 12):
        said = pretrain_on_jax(pretraining_files, tmp_path / "halves", **flags, num_train_steps=steps)
    assert "resuming at step 8" in said
    assert_same_run(tmp_path / "whole", tmp_path / "halves")


def test_backends_take_turns(pretraining_files, tmp_path):
    config = json.loads(pretraining_files.albert_config_file.read_text())
    without_dropout = {**config, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    (tmp_path / "config.json").write_text(json.dumps(without_dropout))
    flags = {"albert_config_file": tmp_path / "config.json", "num_warmup_steps": 100, "learning_rate": 0.1}
    whole, turns = tmp_path / "whole", tmp_path / "turns"
    assert cli.main(pretraining_files.flags(whole, **flags)) == 0
    assert cli.main(pretraining_files.flags(turns, **flags, num_train_steps=4)) == 0
    pretrain_on_jax(pretraining_files, turns, **flags, num_train_steps=8)
    assert cli.main(pretraining_files.flags(turns, **flags)) == 0
    for expected, line in zip(without_speed(whole), without_speed(turns), strict=True):
        assert line == pytest.approx(expected, abs=1e-5)
    expected, found = everything_in(whole), everything_in(turns)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_allclose(found[name], value, atol=1e-4, err_msg=name)
