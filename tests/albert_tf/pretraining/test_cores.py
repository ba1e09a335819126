"""When the cores of a CPU take a part of the batch each. TensorFlow is told once a process."""

import dataclasses
import json
import math

import pytest

from albert_tf import AlbertConfig
from albert_tf.pretraining.cores import SMALLEST_PART, parts_at_once, take_cores_apart
from albert_tf.pretraining.settings import PretrainingSettings
from tests.processes import run_python

PROGRAM = """
import json, os, sys
from albert_tf.pretraining.cores import take_cores_apart
import tensorflow as tf
cases, runs = json.loads(sys.argv[1])
if runs:
    tf.zeros(())
for cores, batch_size, T, H in cases:
    os.sched_getaffinity = lambda process: range(cores)
    parts = take_cores_apart(batch_size, T, H)
    threading = tf.config.threading
    print([parts, threading.get_intra_op_parallelism_threads(), threading.get_inter_op_parallelism_threads()])
"""
LEFT_TO_TENSORFLOW = [1, 0, 0]


def taken(*cases: tuple[int, int, int, int], runs: bool = False) -> list[list[int]]:
    """Of cores, examples, tokens and H: parts, and TensorFlow's threads inside operations and between them.

    Args:
      cases: one after the other in one process.
      runs: whether TensorFlow has done something in it before.
    """
    return [json.loads(line) for line in run_python("-c", PROGRAM, json.dumps([cases, runs])).splitlines()]


@pytest.mark.slow
def test_each_core_takes_a_part_unless_the_parts_are_uneven_or_small():
    one_core, odd, few = (1, 16, 128, 768), (2, 15, 512, 768), (4, 2, 512, 1024)
    small = (2, 2, SMALLEST_PART // 8 - 1, 8)
    *left, apart = taken(one_core, odd, small, few, (4, 4, SMALLEST_PART // 8, 8))
    assert left == [LEFT_TO_TENSORFLOW] * 4
    assert apart == [4, 1, 4]


@pytest.mark.slow
def test_tensorflow_that_runs_already_is_left_as_it_is():
    assert taken((2, 16, 128, 768), runs=True) == [LEFT_TO_TENSORFLOW]


def test_threads_that_the_environment_asks_for(monkeypatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "2")
    assert take_cores_apart(64, 512, 768) == 1


@pytest.mark.parametrize(
    "flags",
    [{"strategy": "mirrored"}, {"num_devices": 2}, {"tpu": "local"}, {"jit_compile": "on"}],
)
def test_what_else_divides_the_batch(monkeypatch, flags):
    """A run of which `take_cores_apart` would make parts."""
    monkeypatch.setattr("albert_tf.pretraining.cores.take_cores_apart", lambda *sizes: math.prod(sizes))
    settings = {"train_batch_size": 64, "gradient_accumulation_steps": 2, "max_seq_length": 16}
    config, plain = AlbertConfig(), PretrainingSettings("", "", "", do_train=True, **settings)
    assert parts_at_once(plain, config) == 32 * 16 * 768
    assert parts_at_once(dataclasses.replace(plain, **flags), config) == 1


def test_one_device_does_not_look_at_tf_config(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{")
    monkeypatch.setattr("albert_tf.pretraining.cores.take_cores_apart", lambda *sizes: 2)
    settings = PretrainingSettings("", "", "", do_train=True, strategy="one", max_seq_length=16)
    assert parts_at_once(settings, AlbertConfig()) == 2
