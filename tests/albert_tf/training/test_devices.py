"""The devices that the flags choose, and the errors when there are none."""

import json

import pytest
import tensorflow as tf

from albert_tf.checkpoints.run_files import METRICS_FILE
from albert_tf.pretraining.flags import PretrainingFlags
from albert_tf.training.cluster import read_cluster
from albert_tf.training.devices import check_agreement, make_devices
from data_prep.errors import InputError
from tests.processes import ROOT, run_python

ON_JAX = {"backend": "jax", "coordinator_address": "10.0.0.1:2222", "num_processes": 2, "process_id": 0}
TWO = {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}


def settings(**flags) -> PretrainingFlags:
    return PretrainingFlags("run", "config", do_train=True, **flags)


@pytest.mark.parametrize("kind", ["auto", "one"])
def test_one_device(kind, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    devices = make_devices(settings(strategy=kind))
    assert devices.replicas == devices.processes == 1
    assert devices.is_chief
    check_agreement(devices, 1, "nobody to disagree with")


def test_devices_after_tensorflow_has_started():
    there = len(tf.config.list_logical_devices("CPU"))
    with pytest.raises(InputError, match=r"must be set before TensorFlow starts\. It has started with"):
        make_devices(settings(strategy="mirrored", num_devices=there + 1))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"tpu": "local", "strategy": "one"}, "--tpu and --strategy cannot be combined"),
        ({"tpu": "local", "num_devices": 2}, "Received 2 with --tpu=local"),
        ({"strategy": "multi_worker", "num_devices": 2}, "Received 2 with --strategy=multi_worker"),
        ({"backend": "jax", "tpu": "local"}, "--tpu is a flag of --backend=tensorflow. Received local"),
        ({"backend": "jax", "strategy": "one"}, "--strategy is a flag of --backend=tensorflow. Received one"),
        ({"backend": "tensorflow", "process_id": 0}, "--process_id is a flag of --backend=jax"),
        ({"backend": "jax", "num_processes": 2}, "Received no --coordinator_address and no --process_id"),
        ({**ON_JAX, "process_id": 2}, "--process_id must be a number from 0 to --num_processes - 1"),
        ({**ON_JAX, "coordinator_address": "somewhere"}, "must be HOST:PORT of the first process"),
        *(({flag: 0}, f"--{flag} must be at least 1") for flag in ("num_devices", "iterations_per_loop",
                                                                    "gradient_accumulation_steps")),
    ],
)  # fmt: skip
def test_contradictory_flags(flags, message):
    with pytest.raises(InputError, match=message):
        settings(**flags)


def test_several_workers_need_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(InputError, match="needs the environment variable TF_CONFIG. Received none"):
        make_devices(settings(strategy="multi_worker"))


def test_tf_config(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config(index=1))
    with pytest.raises(InputError, match="Received 2 with --strategy=multi_worker"):
        make_devices(settings(num_devices=2))
    cluster = read_cluster()
    assert cluster is not None
    assert cluster.address == "10.0.0.2:2222"
    assert cluster.addresses == TWO["worker"]
    for nothing in ("", "{}"):
        monkeypatch.setenv("TF_CONFIG", nothing)
        assert read_cluster() is None


def config(cluster=TWO, kind="worker", index=0) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "a part of it has the wrong type"),
        (json.dumps({"cluster": TWO}), "it has no 'task'"),
        (json.dumps({"cluster": TWO, "task": {"type": "worker"}}), "it has no 'index'"),
        (config(kind="chief"), "it has no 'chief'"),
        (config(index=2), "index 2 is not one of the 2"),
        (config(index="0"), "index '0' is not one of the 2"),
        (config({**TWO, "ps": ["a:1"]}), "it has a 'ps'"),
        (config({"worker": ["a"]}), "'a' is not HOST:PORT"),
        (config({"worker": ["2222"]}), "'2222' is not HOST:PORT"),
        (config({"worker": ["a:1", "a:1"]}), "occurs twice"),
        (config(["a:1"]), "a part of it has the wrong type"),
    ],
)
def test_invalid_tf_config(monkeypatch, value, message):
    monkeypatch.setenv("TF_CONFIG", value)
    for kind in ("auto", "multi_worker"):
        with pytest.raises(InputError, match=f"TF_CONFIG must be JSON.*{message}"):
            make_devices(settings(strategy=kind))


@pytest.mark.very_slow
def test_deterministic_operations(pretraining_files, tmp_path):
    """TensorFlow has one for all that a run computes; in this process it stays off."""
    flags = pretraining_files.flags(tmp_path / "run", deterministic_ops=True, num_train_steps=12)[1:]
    run_python("-c", DETERMINISTIC, ROOT / "run_pretraining.py", *flags)
    (metrics,) = (tmp_path / "run").rglob(METRICS_FILE)
    assert '"loss"' in metrics.read_text(encoding="utf-8")


DETERMINISTIC = """
import runpy, sys
import tensorflow as tf
enabled = []
enable = tf.config.experimental.enable_op_determinism
tf.config.experimental.enable_op_determinism = lambda: enabled.append(enable())
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
assert enabled
"""
