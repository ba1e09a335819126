"""What a run logs also reaches MLflow and Weights & Biases, without a network."""

import json

import pytest

from albert_cli import cli
from albert_tf.checkpoints.run_files import read_metrics
from albert_tf.training.trackers import tracked
from data_prep.errors import InputError


@pytest.mark.very_slow
def test_mlflow_needs_an_address(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(InputError, match="MLFLOW_TRACKING_URI"), tracked("mlflow", tmp_path):
        pass


@pytest.mark.very_slow
def test_a_resumed_run_is_one_run_in_mlflow(pretraining_files, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    run = tmp_path / "run"
    for steps in (8, 12):
        flags = pretraining_files.flags(run, log_to="mlflow", num_train_steps=steps)
        assert cli.main(flags) == 0
    identity = json.loads((run / "trackers.json").read_text())["mlflow"]
    client = mlflow.MlflowClient()
    (found,) = client.search_runs(["0"])
    assert found.info.run_id == identity
    assert found.data.params["optimizer"] == '"lamb"'
    assert found.info.status == "FINISHED"
    logged = {line["step"]: line["loss"] for line in read_metrics(run) if "loss" in line}
    assert {each.step: each.value for each in client.get_metric_history(identity, "loss")} == logged
    assert client.get_metric_history(identity, "eval_loss")


@pytest.mark.very_slow
def test_wandb_offline(pretraining_files, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = tmp_path / "run"
    assert cli.main(pretraining_files.flags(run, log_to="wandb", num_train_steps=4)) == 0
    (folder,) = (run / "wandb").glob("offline-run-*")
    (file,) = folder.glob("*.wandb")
    assert json.loads((run / "trackers.json").read_text())["wandb"] in file.name
    content = file.read_bytes()
    assert b"masked_lm_accuracy" in content and b"max_predictions_per_seq" in content
