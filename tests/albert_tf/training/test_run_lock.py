"""One process at a time in a folder; a lock that dies with its holder."""

import subprocess
import sys

import pytest

from albert_cli import cli
from albert_tf.training.run_lock import locked_folder
from data_prep.errors import InputError

HOLD = """
import sys, time
from pathlib import Path
from albert_tf.training.run_lock import locked_folder
with locked_folder(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of tmp_path/run."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_lock_of_a_killed_process_is_free(holder, tmp_path):
    with (
        pytest.raises(InputError, match=f"is in use by process {holder.pid} on "),
        locked_folder(tmp_path / "run"),
    ):
        pass
    holder.kill()
    holder.wait()
    with locked_folder(tmp_path / "run"), pytest.raises(InputError), locked_folder(tmp_path / "run"):
        pass
    with locked_folder(tmp_path / "run"):
        pass


def test_a_second_training_is_refused(holder, pretraining_files, tmp_path, capfd):
    before = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert cli.main(pretraining_files.flags(tmp_path / "run")) == 2
    assert f"is in use by process {holder.pid}" in capfd.readouterr().err
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before


def test_an_error_leaves_no_folder(tmp_path):
    with pytest.raises(InputError), locked_folder(tmp_path / "a" / "run"):
        raise InputError("before anything was written")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"), locked_folder(tmp_path / "file" / "run"):
        pass
