"""How processes of JAX find each other, and what each of them says when another one is lost."""

import signal
import socket

import pytest

from albert_tf.training import jax_processes
from albert_tf.training.device_flags import DeviceFlags
from albert_tf.training.jax_processes import Place, find_place
from tests.processes import loopback_address, run_together

SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_NODELIST": "node[001-002]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
}


@pytest.fixture
def slurm(monkeypatch):
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_the_flags_give_a_place():
    flags = DeviceFlags(backend="jax", coordinator_address="a:1", num_processes=3, process_id=2)
    assert find_place(flags) == Place("a:1", 3, 2)
    assert find_place(DeviceFlags(backend="jax")) is None


def test_slurm_gives_a_place(slurm):
    port = 65535 - 2**12 + 1 + 77
    assert find_place(DeviceFlags(backend="jax")) == Place(f"node001:{port}", 2, 1), "all devices of a node"
    slurm.setenv("SLURM_STEP_NUM_NODES", "1")
    slurm.setenv("SLURM_LOCALID", "1")
    assert find_place(DeviceFlags(backend="jax")) == Place(f"node001:{port}", 2, 1, [1]), (
        "a device for each task"
    )
    slurm.setenv("SLURM_NTASKS", "1")
    assert find_place(DeviceFlags(backend="jax")) is None
    slurm.setenv("SLURM_NTASKS", "2")
    slurm.delenv("SLURM_STEP_NODELIST")
    assert find_place(DeviceFlags(backend="jax")) is None, "in the batch script itself, outside srun"


@pytest.fixture
def relayed():
    """A relay to another process, and the two ends of a connection through it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        relay = jax_processes._Relay("127.0.0.1", 0, f"127.0.0.1:{other.getsockname()[1]}", from_others=False)
        relay.watches = False  # it would end this process
        host, _, port = relay.address.partition(":")
        with socket.create_connection((host, int(port)), timeout=20) as near:
            far = other.accept()[0]
            with far:
                yield relay, near, far


def test_a_relay_hides_a_lost_process(relayed):
    relay, near, far = relayed
    near.sendall(b"question")
    assert far.recv(100) == b"question"
    far.sendall(b"answer")
    assert near.recv(100) == b"answer"
    assert not relay.lost.is_set()
    far.close()
    assert relay.lost.wait(20)
    near.settimeout(0.2)
    with pytest.raises(TimeoutError):
        near.recv(100)


def test_who_says_nothing_is_no_process(relayed):
    relay, near, far = relayed
    far.close()
    assert near.recv(100) == b""
    assert not relay.lost.is_set()


PROGRAM = """
import os, sys
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from albert_tf.training import jax_processes
from data_prep.errors import InputError

port, index, case = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
jax_processes.WAIT = 5 if case == "alone" else 120
jax_processes._GRACE = 1
try:
    with jax_processes.joined(jax_processes.Place(f"127.0.0.1:{port}", 2, index)):
        for step in range(50):
            process_allgather(np.int32(step))
            if step == 5 and index == 1 and case == "killed":
                os.kill(os.getpid(), 9)
            if step == 5 and index == 0 and case == "mistake":
                raise InputError("a mistake")
    print("done")
except InputError as error:
    print(error)
    sys.exit(2)
"""


def run_processes(case: str, indices: tuple[int, ...] = (0, 1), port: int | None = None):
    port = port or int(loopback_address().rpartition(":")[2])
    commands = [["-c", PROGRAM, port, index, case] for index in indices]
    return run_together(commands, [{"KERAS_BACKEND": "jax"}] * len(indices), timeout=200)


@pytest.mark.very_slow
def test_a_lost_process_ends_the_others():
    whole = run_processes("whole")
    for process in whole:
        assert process.returncode == 0, process.stderr
        assert process.stdout.endswith("done\n")  # Gloo's line is before it
    chief, killed = run_processes("killed")
    assert killed.returncode == -signal.SIGKILL
    assert chief.returncode == 2
    assert "Another process stopped, so this one stops too" in chief.stdout + chief.stderr
    assert "@" not in chief.stderr, "the trace of an abort"
    mistaken, other = run_processes("mistake")
    assert mistaken.returncode == 2
    assert mistaken.stdout.endswith("a mistake\n")
    assert other.returncode == 2
    assert "Another process stopped" in other.stdout + other.stderr


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("index", "reason"), [(0, "not all started within 5 seconds"), (1, "Connection refused")]
)
def test_others_that_do_not_start(index, reason):
    (process,) = run_processes("alone", (index,))
    assert process.returncode == 2
    assert f"Process {index} could not join the others at 127.0.0.1:" in process.stdout + process.stderr
    assert reason in process.stdout + process.stderr


@pytest.mark.very_slow
def test_a_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as server:
        (process,) = run_processes("alone", (0,), server.getsockname()[1])
    assert process.returncode == 2
    assert "Address already in use. Start all processes" in process.stdout
