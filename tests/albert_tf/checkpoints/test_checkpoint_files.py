"""Checkpoints that are cut short, have a flipped bit, or were being written when the process was killed."""

import itertools
import shutil
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.checkpoint_files import (
    damage,
    newest_intact,
    prune,
    remove_unfinished,
    steps_in,
    write_checkpoint,
)
from albert_tf.training.cluster import loopback_clusters
from data_prep.errors import InputError
from tests.processes import FORKS, Program


@pytest.fixture
def folder(tmp_path):
    """Checkpoints of steps 1, 2 and 3; each holds an array filled with its step."""
    for step in (1, 2, 3):
        values = tf.Variable(np.full(1000, step, "float32"))
        write_checkpoint(tf.train.Checkpoint(values=values), tmp_path, step, good=True)
    return tmp_path


def newest(folder) -> tuple[int, list[str]]:
    notes: list[str] = []
    found = newest_intact(folder, notes.append)
    assert found
    values = tf.Variable(np.zeros(1000, "float32"))
    tf.train.Checkpoint(values=values).read(found[1]).assert_consumed()
    assert set(values.numpy()) == {found[0]}
    return found[0], notes


def test_intact(folder):
    assert newest(folder) == (3, [])
    assert steps_in(folder) == [3, 2, 1]
    assert damage(folder / "ckpt-2") is None


@pytest.mark.parametrize("name", ["data-00000-of-00001", "index", "json"])
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_cut_short(folder, name, kept):
    path = folder / f"ckpt-3.{name}"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    step, (line,) = newest(folder)
    assert step == 2
    assert "the checkpoint of step 3" in line
    assert "using the one before it" in line


def test_any_flipped_bit_of_values_is_detected(folder):
    path = folder / "ckpt-3.data-00000-of-00001"
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for bit in rng.integers(0, 8 * len(content), 50):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(flipped)
        assert "does not have the checksum" in (damage(folder / "ckpt-3") or "")
    assert newest(folder)[0] == 2


@pytest.mark.slow
def test_a_flipped_bit_of_the_checksums(folder):
    """If any byte of the checksums changes, the newest intact checkpoint is this one or the one before it."""
    path = folder / "ckpt-3.json"
    content = path.read_bytes()
    for number in range(len(content)):
        path.write_bytes(content[:number] + bytes([content[number] ^ 2]) + content[number + 1 :])
        assert newest(folder)[0] in (2, 3)


def test_two_damaged(folder):
    (folder / "ckpt-3.data-00000-of-00001").unlink()
    (folder / "ckpt-2.index").write_bytes(b"")
    step, notes = newest(folder)
    assert step == 1
    assert len(notes) == 2


def test_none_is_intact(folder):
    for path in folder.glob("*.index"):
        path.write_bytes(b"")
    with pytest.raises(InputError, match="None of the 3 checkpoints in .* is intact"):
        newest_intact(folder, lambda line: None)


def test_no_checkpoints(tmp_path):
    assert newest_intact(tmp_path / "nothing", print) is None


def test_prune_keeps_the_needed_checkpoint(folder):
    prune(folder, 1, needed=[1])
    assert steps_in(folder) == [3, 1]
    assert {path.name.split(".")[0] for path in folder.iterdir()} == {"ckpt-1", "ckpt-3"}


def test_folders_and_files_with_other_names_are_not_removed(folder):
    shutil.copyfile(folder / "ckpt-3.index", folder / "ckpt-best.index")
    for name in ("ckpt-old", "ckpt-4", "ckpt-1.index.copy"):
        (folder / name).mkdir()
    for name in ("ckpt-4.json", "ckpt-4.data-00000-of-00001", "ckpt-4.tar.gz", "ckpt-1.zip", "ckpt-².index"):
        (folder / name).touch()
    remove_unfinished(folder)
    assert steps_in(folder) == [3, 2, 1]
    assert (folder / "ckpt-best.index").exists()
    prune(folder, 1, needed=[])
    assert {path.name for path in folder.iterdir() if not path.name.startswith("ckpt-3.")} == {
        "ckpt-best.index",
        "ckpt-old",
        "ckpt-4",
        "ckpt-1.index.copy",
        "ckpt-4.tar.gz",
        "ckpt-1.zip",
        "ckpt-².index",
    }


def test_what_a_kill_leaves_is_removed(tmp_path, monkeypatch):
    """Whatever is in the folder at any rename, all that counts as a checkpoint is whole, and stays."""
    replace, moments = Path.replace, itertools.count()

    def copy_first(path, target):
        moment = tmp_path / f"moment-{next(moments)}"
        shutil.copytree(tmp_path / "run", moment)
        remove_unfinished(moment)
        names = {file.name.split(".")[0] for file in moment.iterdir()}
        assert names == {f"ckpt-{step}" for step in steps_in(moment)}
        assert all(damage(moment / name) is None for name in names)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", copy_first)
    values = tf.Variable(np.zeros(10, "float32"))
    for step in (1, 2, 2):
        values.assign_add(tf.ones(10))
        write_checkpoint(tf.train.Checkpoint(values=values), tmp_path / "run", step, good=True)
    assert next(moments) == 12, "data, checksums (written aside, then moved) and index of three checkpoints"
    read = tf.Variable(np.zeros(10, "float32"))
    tf.train.Checkpoint(values=read).read(str(tmp_path / "run" / "ckpt-2"))
    assert set(read.numpy()) == {3.0}, "the last of two of the same step"


def save_forever(folder: Path, pipe: Connection) -> None:
    """Saves one checkpoint after the other, and sends the step of each."""
    values = tf.Variable(np.zeros(2_000_000, "float32"))
    for step in itertools.count(1):
        values.assign(tf.fill([2_000_000], float(step)))
        write_checkpoint(tf.train.Checkpoint(values=values), folder, step, good=True)
        prune(folder, 2, needed=[])
        pipe.send(step)


@pytest.mark.very_slow
def test_killed_while_saving(tmp_path):
    """kill -9 at arbitrary moments, in a process that only saves."""
    leftovers = 0
    for kill in range(5):
        receiver, sender = FORKS.Pipe(duplex=False)
        process = FORKS.Process(target=save_forever, args=(tmp_path, sender), daemon=True)
        process.start()
        for _ in range(3):
            last = receiver.recv()
        time.sleep(0.01 * kill)
        process.kill()
        process.join()
        process.close()
        for end in (receiver, sender):
            end.close()
        found = newest_intact(tmp_path, lambda line: None)
        assert found
        assert found[0] >= last, "a step reported as saved exists"
        values = tf.Variable(np.zeros(2_000_000, "float32"))
        tf.train.Checkpoint(values=values).read(found[1]).assert_consumed()
        assert set(values.numpy()) == {found[0]}
        leftovers += any(path.name.startswith(".") for path in tmp_path.iterdir())
        remove_unfinished(tmp_path)
        assert {path.name.split(".")[0] for path in tmp_path.iterdir()} == {
            f"ckpt-{step}" for step in steps_in(tmp_path)
        }
        for path in tmp_path.iterdir():
            path.unlink()
    assert leftovers, "at least one kill came in the middle of a save"


OTHER_MACHINE = """
import json, sys, threading
import tensorflow as tf

worker = tf.distribute.Server(json.loads(sys.argv[1])["cluster"], job_name="worker", task_index=0)
print("ready", flush=True)
threading.Event().wait()
"""

THIS_MACHINE = """
import json, sys, types
from pathlib import Path
import keras
import tensorflow as tf
from albert_tf.optimizers import AdamW
from albert_tf.training.checkpoints import RunCheckpoints

tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(json.loads(sys.argv[1])["cluster"]))
with tf.device("/job:worker/replica:0/task:0/device:CPU:0"):
    weight, optimizer = keras.Variable([1.0, 2.0], name="weight"), AdamW()
    optimizer.build([weight])
assert "job:worker" in weight.value.device
checkpoints = RunCheckpoints(Path("run"), types.SimpleNamespace(variables=[weight]), optimizer)
checkpoints.save()
weight.assign([7.0, 7.0])
checkpoints.restore_latest()
print(weight.numpy().tolist())
"""


@pytest.mark.very_slow
def test_variables_on_another_machine_are_saved_on_this_one(tmp_path):
    """As those of a TPU that --tpu names; its folders are others."""
    (cluster,) = loopback_clusters(1)
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    with Program(["-c", OTHER_MACHINE, cluster], folder=there) as worker:
        deadline = time.monotonic() + 120
        while "ready" not in worker.output() and time.monotonic() < deadline:
            time.sleep(0.1)
        with Program(["-c", THIS_MACHINE, cluster], folder=here) as program:
            output, error = program.communicate(timeout=120)
    assert output == "[1.0, 2.0]\n", error
    assert steps_in(here / "run" / "checkpoints") == [0]
    assert not list(there.iterdir())
