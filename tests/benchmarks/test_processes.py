"""Programs in processes of their own, and peers that take turns."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.processes import Peer, albert, take_turns, turn_together

ROOT = Path(__file__).parents[2]
ECHO = "tests.benchmarks.test_processes:echo"
# Runs a program that creates a file and waits.
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


def echo(factor: int):
    """A library that multiplies; it dies if it is to."""

    def turn(number: int = 1, die: bool = False) -> dict:
        if die:
            sys.exit(1)
        print("not a reply")
        return {"product": factor * number}

    return turn


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a peer with the fewest imports."""
    monkeypatch.chdir(ROOT)
    peers = []

    def started(name: str, factor: int = 1) -> Peer:
        peers.append(Peer(name, ECHO, {"factor": factor}, tmp_path))
        return peers[-1]

    yield started
    for peer in peers:
        peer.stop()


def test_peers_take_turns_and_are_stopped_between_them(start):
    peers = [start("one", 2), start("two", 3)]
    assert [peer.first_turn(number=1) for peer in peers] == [True, True]
    assert take_turns(peers, [{"number": 2}, {"number": 3}]) == peers
    assert [[reply["product"] for reply in peer.replies] for peer in peers] == [[2, 4, 6], [3, 6, 9]]
    status = Path(f"/proc/{peers[0].process.pid}/stat")
    while status.read_text().rpartition(")")[2].split()[0] != "T":  # SIGSTOP arrives a little later
        time.sleep(0.01)
    assert peers[0].first_turn_seconds > peers[0].replies[1]["seconds"] > 0
    assert peers[0].replies[0]["peak_megabytes"] > 1
    assert take_turns(peers, [{"die": True}]) == []


def test_a_peer_that_does_not_start_is_reported(start, tmp_path, capsys):
    peer = start("dying")
    assert not peer.first_turn(die=True)
    assert capsys.readouterr().out == f"dying does not run here: see {tmp_path}/dying.log\n"


def test_a_death_ends_the_wait_for_all(start):
    peers = [start("one"), start("two")]
    assert turn_together(peers)
    assert [len(peer.replies) for peer in peers] == [1, 1]
    peers[1].process.kill()
    peers[1].process.wait()
    assert not turn_together(peers)


def test_a_program_that_fails_ends_this_one(tmp_path, capfd):
    with pytest.raises(SystemExit) as ended:
        albert("models", mixed_precision="bfloat16", other=None)
    assert ended.value.code == 2
    error = capfd.readouterr().err
    assert error.startswith("$ albert models --mixed_precision=bfloat16\n")
    assert "mixed_precision" in error.partition("\n")[2]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_passed_on(tmp_path, number, status):
    (tmp_path / "waiting.py").write_text(WAITING)
    begun, received = tmp_path / "begun", tmp_path / "received"
    program = f"from benchmarks.processes import run; run('waiting', {str(begun)!r})"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    parent = subprocess.Popen([sys.executable, "-c", program], env=environment)
    try:
        deadline = time.monotonic() + 60
        while not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        parent.send_signal(number)
        assert parent.wait(timeout=60) == status
    finally:
        parent.kill()
        parent.wait()
    assert received.read_text() == number.name
