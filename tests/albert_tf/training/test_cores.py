"""When the cores of a CPU take a part of the batch each. TensorFlow is told once a process."""

import json

import pytest

from albert_tf.training.cores import SMALLEST_PART, parts_at_once, take_cores_apart
from albert_tf.training.settings import PretrainingSettings
from tests.processes import run_python

PROGRAM = """
import json, os, sys
os.sched_getaffinity = lambda process: range(int(sys.argv[1]))
from albert_tf.training.cores import take_cores_apart
import tensorflow as tf
if sys.argv[4] == "runs":
    tf.zeros(())
parts = take_cores_apart(int(sys.argv[2]), int(sys.argv[3]))
threading = tf.config.threading
print(json.dumps([
    parts, threading.get_intra_op_parallelism_threads(), threading.get_inter_op_parallelism_threads()
]))
"""
LEFT_TO_TENSORFLOW = [1, 0, 0]


def taken(cores: int, batch_size: int, T: int, state: str = "fresh") -> list[int]:
    """Parts, and TensorFlow's threads inside operations and between them."""
    return json.loads(run_python("-c", PROGRAM, str(cores), str(batch_size), str(T), state))


@pytest.mark.slow
def test_each_core_takes_a_part():
    assert taken(2, 16, 128) == [2, 1, 2]
    assert taken(4, 4, SMALLEST_PART) == [4, 1, 4]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cores", "batch_size", "T", "state"),
    [
        pytest.param(1, 16, 128, "fresh", id="one core"),
        pytest.param(2, 15, 512, "fresh", id="an odd batch"),
        pytest.param(2, 2, SMALLEST_PART - 1, "fresh", id="small parts"),
        pytest.param(4, 2, 512, "fresh", id="fewer examples than cores"),
        pytest.param(2, 16, 128, "runs", id="TensorFlow runs already"),
    ],
)
def test_what_is_left_to_tensorflow(cores, batch_size, T, state):
    assert taken(cores, batch_size, T, state) == LEFT_TO_TENSORFLOW


def test_threads_that_the_environment_asks_for(monkeypatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "2")
    assert take_cores_apart(64, 512) == 1


@pytest.mark.parametrize(
    "flags",
    [{"strategy": "mirrored"}, {"num_devices": 2}, {"tpu": "local"}, {"jit_compile": "on"}],
)
def test_what_else_divides_the_batch(monkeypatch, flags):
    """A run of which `take_cores_apart` would make parts."""
    monkeypatch.setattr("albert_tf.training.cores.take_cores_apart", lambda batch_size, T: batch_size * T)
    settings = {"train_batch_size": 64, "gradient_accumulation_steps": 2, "max_seq_length": 16}
    plain = PretrainingSettings("", "", "", do_train=True, **settings)
    assert parts_at_once(plain) == 32 * 16
    assert parts_at_once(PretrainingSettings("", "", "", do_train=True, **settings, **flags)) == 1
