"""Runs at addresses of object stores: two processes, interruptions, outages, other machines."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from albert_cli import cli
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.run_files import read_metrics
from albert_tf.training import run_place as place_module
from albert_tf.training.device_flags import DeviceFlags
from albert_tf.training.run_place import run_place, working_folder
from data_prep.errors import DiskFullError, InputError, Preempted
from data_prep.storage import objects
from data_prep.storage.access import StorageError
from data_prep.storage.locks import Lock
from data_prep.storage.objects import files_below

SPEED = {"tokens_per_second", "flops_per_second", "input_wait_share", "examples_per_second"}
WITHOUT_TIMES = ("metrics.jsonl", "settings.json", "tensorboard")  # and the flag --output_dir
WITHOUT_EVALUATION = {"eval_file": None, "do_eval": None}
HOLD = """
import sys, time
from albert_tf.training.device_flags import DeviceFlags
from albert_tf.training.run_place import run_place
with run_place(sys.argv[1], DeviceFlags()):
    print("locked", flush=True)
    time.sleep(600)
"""


class Killed(BaseException):
    """As after kill -9, nothing more is pushed."""


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def url(tmp_path) -> str:
    """Through fsspec, as every address; seen by other processes, too."""
    return f"file://{tmp_path}/store/run"


def names_in(url: str) -> set[str]:
    return {name for name in files_below(url) if not name.startswith(".")}


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_a_local_folder_is_the_place(tmp_path):
    with run_place(str(tmp_path / "run"), DeviceFlags()) as place:
        place.push()
        assert place.folder == tmp_path / "run"
        assert place.named(f"in {place.folder}") == f"in {tmp_path}/run"
    assert not list(tmp_path.iterdir())


def test_what_is_written_is_there_in_the_end_and_on_another_machine(url, cache):
    with run_place(url, DeviceFlags()) as place:
        write(place.folder, "settings.json", "{}")
        write(place.folder, "checkpoints/ckpt-4.index", "index")
        place.push()
        assert names_in(url) == {"settings.json", "checkpoints/ckpt-4.index"}
        write(place.folder, "metrics.jsonl", "4")
        assert place.named(f"resuming {place.folder}") == f"resuming {url}"
    assert (
        names_in(url)
        == set(files_below(url))
        == {"settings.json", "checkpoints/ckpt-4.index", "metrics.jsonl"}
    )
    shutil.rmtree(cache)
    with run_place(f"{url}/", DeviceFlags()) as place:
        assert (place.folder / "metrics.jsonl").read_text() == "4"
        assert place.folder.name.startswith("run-")


def test_signals_push_and_other_errors_do_not(url):
    for error, pushed in ((Killed(), set()), (Preempted("saved"), {"best.json"})):
        with pytest.raises(type(error)), run_place(url, DeviceFlags()) as place:
            write(place.folder, "best.json", "4")
            raise error
        assert names_in(url) == pushed


def test_the_log_comes_after_the_best_weights_and_before_the_index(url, monkeypatch):
    uploaded = []
    upload = objects.upload

    def recorded(path, url):
        uploaded.append(path.name)
        return upload(path, url)

    monkeypatch.setattr("data_prep.storage.folders.upload", recorded)
    names = ["ckpt-4.data-00000-of-00001", "model.keras", "best.json", "metrics.jsonl", "ckpt-4.index"]
    with run_place(url, DeviceFlags()) as place:
        for name in names:
            write(place.folder, f"seed_0/{name}", "")
    assert uploaded == names


def test_messages_name_the_address(url):
    with (
        pytest.raises(InputError, match=f"^{url}/settings.json is damaged$"),
        run_place(url, DeviceFlags()) as place,
    ):
        raise InputError(f"{place.folder}/settings.json is damaged")
    full = pytest.raises(DiskFullError, match="^The disk of .*/cache/runs/run-.* is full")
    with full, run_place(url, DeviceFlags()) as place:
        raise DiskFullError(f"The disk of {place.folder} is full")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("hf://owner/name", "Files must be on this machine. Received "),
        ("s3:/bucket/run", "Files must be on this machine. Received "),
        ("nowhere://bucket/run", "cannot be used: Protocol not known: nowhere."),
    ],
)
def test_no_run_is_kept_elsewhere(pretraining_files, cache, address, message, capfd):
    assert cli.main(pretraining_files.flags(address)) == 2
    assert message in capfd.readouterr().err
    assert not cache.exists()


def test_workers_have_folders_of_their_own(url, monkeypatch):
    workers = ["10.0.0.1:2222", "10.0.0.2:2222"]
    folders = []
    for jobs, task in (
        ({"worker": workers}, ("worker", 0)),
        ({"worker": workers}, ("worker", 1)),
        ({"chief": workers[:1], "worker": workers[1:]}, ("worker", 0)),
        ({"chief": workers[:1], "worker": workers[1:]}, ("chief", 0)),
    ):
        cluster = {"cluster": jobs, "task": dict(zip(("type", "index"), task, strict=True))}
        monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
        folders.append(working_folder(url, DeviceFlags()))
        assert working_folder(url, DeviceFlags(strategy="one")) == folders[0]
    assert folders[0] == folders[3] != folders[1] == folders[2]


@pytest.mark.very_slow
def test_two_processes_and_a_killed_one(url):
    process = subprocess.Popen([sys.executable, "-c", HOLD, url], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "locked\n"
        message = f"may use {url}. It is in use by process {process.pid} on "
        with pytest.raises(InputError, match=message), run_place(url, DeviceFlags()):
            pass
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    with run_place(url, DeviceFlags()) as place:
        write(place.folder, "best.json", "4")
    assert names_in(url) == {"best.json"}


def test_a_process_that_lost_its_lock_pushes_nothing(url, monkeypatch):
    monkeypatch.setattr(place_module, "Lock", partial(Lock, beat=0.05, stale=0.2))
    with (
        pytest.raises(InputError, match=f"{url}. It was taken over by process 7"),
        run_place(url, DeviceFlags()) as place,
    ):
        objects.write(f"{url}/.lock/000009.json", b'{"host": "other", "process": 7}')
        write(place.folder, "best.json", "4")
        time.sleep(0.5)
    assert names_in(url) == set()


def without_speed(run: Path) -> list[dict]:
    return [{k: v for k, v in line.items() if k not in SPEED} for line in read_metrics(run)]


def assert_same_files(run: Path, expected: Path) -> None:
    """All bytes but those of clocks and of --output_dir."""
    found, wanted = (
        {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith(".") and not set(path.parts) & set(WITHOUT_TIMES)
        }
        for folder in (run, expected)
    )
    assert found.keys() == wanted.keys()
    assert found == wanted
    assert without_speed(run) == without_speed(expected)


@pytest.fixture(scope="module")
def finished(pretraining_files, tmp_path_factory) -> Path:
    """An uninterrupted run of 12 steps in a local folder."""
    run = tmp_path_factory.mktemp("finished") / "run"
    assert cli.main(pretraining_files.flags(run, **WITHOUT_EVALUATION)) == 0
    return run


@pytest.mark.slow
def test_a_run_that_is_killed_before_its_index_resumes_on_another_machine(
    finished, pretraining_files, url, tmp_path, cache, monkeypatch, capfd
):
    upload = objects.upload

    def killed(path, url):
        if path.name == "ckpt-8.index":
            raise Killed
        return upload(path, url)

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr("data_prep.storage.folders.upload", killed)
        cli.main(pretraining_files.flags(url, **WITHOUT_EVALUATION))
    there = names_in(url)
    assert {"checkpoints/ckpt-8.data-00000-of-00001", "checkpoints/ckpt-4.index"} <= there
    assert "checkpoints/ckpt-8.index" not in there
    shutil.rmtree(cache)
    capfd.readouterr()
    assert cli.main(pretraining_files.flags(url, **WITHOUT_EVALUATION)) == 0
    out, err = capfd.readouterr()
    assert out == f"{url}\n"
    assert f"resuming at step 4 of the run in {url}" in err
    assert_same_files(tmp_path / "store/run", finished)
    assert json.loads((tmp_path / "store/run/settings.json").read_text())["output_dir"] == url
    assert open_model(url).path.name == "ckpt-12"


@pytest.mark.very_slow
def test_a_run_outlives_an_outage(finished, pretraining_files, url, tmp_path, monkeypatch, capfd):
    """What was not pushed is kept, and the same command goes on from there."""
    upload = objects.upload

    def away(path, url):
        if "ckpt-8" in path.name:
            raise StorageError(f"{url} could not be reached for 60 seconds.")
        return upload(path, url)

    with monkeypatch.context() as patched:
        patched.setattr("data_prep.storage.folders.upload", away)
        assert cli.main(pretraining_files.flags(url, **WITHOUT_EVALUATION)) == 2
    assert (
        f"albert: {url}/checkpoints/ckpt-8.data-00000-of-00001 could not be reached" in capfd.readouterr().err
    )
    assert cli.main(pretraining_files.flags(url, **WITHOUT_EVALUATION)) == 0
    assert "resuming at step 8" in capfd.readouterr().err
    assert_same_files(tmp_path / "store/run", finished)


@pytest.mark.very_slow
def test_sigterm_saves_and_pushes(finished, pretraining_files, url, tmp_path, cache, monkeypatch, capfd):
    from albert_tf.training.step_loop import StepLoop

    method = StepLoop.run

    def interrupted(loop, start, *arguments):
        if start >= 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return method(loop, start, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(StepLoop, "run", interrupted)
        assert cli.main(pretraining_files.flags(url, **WITHOUT_EVALUATION)) == 143
    (step,) = {int(name.split("-")[1].split(".")[0]) for name in names_in(url) if name.endswith(".index")} - {
        4
    }
    shutil.rmtree(cache)
    capfd.readouterr()
    assert cli.main(pretraining_files.flags(url, **WITHOUT_EVALUATION)) == 0
    assert f"resuming at step {step}" in capfd.readouterr().err
    assert (tmp_path / "store/run/checkpoints/ckpt-12.index").exists()
