"""Programs in their own processes: their exit statuses, and signals forwarded to them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from albert_tf.lab.subprocesses import ProgramRunner, flags_of
from albert_tf.pretraining.settings import PretrainingSettings
from data_prep.errors import InputError
from data_prep.examples.settings import PrepareSettings

ROOT = Path(__file__).parents[3]
# A laboratory's process, which runs a program that creates a file and waits.
LABORATORY = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background processes ignore it
from data_prep.errors import Preempted
from albert_tf.lab.subprocesses import ProgramRunner, flags_of
from albert_tf.pretraining.settings import PretrainingSettings
from data_prep.examples.settings import PrepareSettings
try:
    with ProgramRunner() as programs:
        programs.module("waiting", sys.argv[1])
except Preempted:
    sys.exit(143)
except KeyboardInterrupt:
    sys.exit(130)
"""
WAITING = """
import pathlib, signal, sys, time
def stop(number, frame):
    pathlib.Path(sys.argv[1]).with_name("received").write_text(signal.Signals(number).name)
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
pathlib.Path(sys.argv[1]).write_text("")
time.sleep(60)
"""


def test_only_the_command_is_logged(tmp_path, capfd, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "fine.py").write_text("print(__import__('sys').argv[1])")
    with ProgramRunner() as programs:
        programs.module("fine", "two words")
    out, err = capfd.readouterr()
    assert out == "two words\n"
    assert err == "$ python -m fine 'two words'\n"


@pytest.mark.slow
def test_a_users_mistake_is_an_input_error(capfd):
    with (
        ProgramRunner() as programs,
        pytest.raises(InputError, match="albert prepare failed: see its message above"),
    ):
        programs.albert("prepare", PrepareSettings("nowhere.txt", "x", "y", ngram=2))
    assert "nowhere.txt" in capfd.readouterr().err


def test_flags_at_their_defaults_are_left_out():
    settings = PretrainingSettings("run", "config", "a b", do_train=True, learning_rate=0.1, seed=12345)
    flags = ["--output_dir=run", "--albert_config_file=config", "--input_file=a b", "--do_train=True"]
    assert flags_of(settings) == [*flags, "--learning_rate=0.1"]


def test_a_tuple_is_one_flag_for_each_element():
    settings = PretrainingSettings("run", "config", phase=("a", "b"), do_train=True)
    assert flags_of(settings)[2:] == ["--phase=a", "--phase=b", "--do_train=True"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", "perhaps because memory ran out"),
        ("import os; os.kill(os.getpid(), 6)", "it ended with SIGABRT"),
        ("raise ZeroDivisionError", "it ended with status 1"),
    ],
)
def test_a_crash_is_an_input_error(tmp_path, monkeypatch, source, message):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "crashing.py").write_text(source)
    with ProgramRunner() as programs, pytest.raises(InputError, match=message):
        programs.module("crashing")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_forwarded(tmp_path, number, status):
    (tmp_path / "waiting.py").write_text(WAITING)
    begun, received = tmp_path / "begun", tmp_path / "received"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    laboratory = subprocess.Popen([sys.executable, "-c", LABORATORY, str(begun)], env=environment)
    try:
        deadline = time.monotonic() + 60
        while not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        laboratory.send_signal(number)
        assert laboratory.wait(timeout=60) == status
    finally:
        laboratory.kill()
        laboratory.wait()
    assert received.read_text() == number.name
