"""Processes that compute in turns; the benchmarks' tests compare what they reply."""

import os
import subprocess
import sys
from pathlib import Path

from albert_tf.lab.peer_processes import Peer, await_replies

ROOT = Path(__file__).parents[3]
# Starts a peer, which is then stopped until its next turn, and fails.
FAILING = """
import sys
from pathlib import Path
from albert_tf.lab.peer_processes import Peer
serving = "from albert_tf.lab.peer_processes import *; serve_steps(open_replies(), lambda _: {})"
peer = Peer.start("one", [sys.executable, "-c", serving], Path(sys.argv[1]))
print(peer.process.pid, flush=True)
raise ZeroDivisionError
"""


def test_peers_end_with_a_program_that_fails(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    failed = subprocess.run(
        [sys.executable, "-c", FAILING, str(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert "ZeroDivisionError" in failed.stderr
    assert not Path(f"/proc/{failed.stdout.strip()}").exists()


def test_a_peer_that_dies_is_reported(tmp_path, capsys):
    assert Peer.start("dying", [sys.executable, "-c", ""], tmp_path) is None
    assert capsys.readouterr().out == f"dying does not run here: see {tmp_path}/dying.log\n"


def test_a_death_ends_the_wait_for_all(tmp_path):
    """A worker waits for a dead one and never replies."""
    echo = "import sys; print('{}', flush=True) if sys.stdin.readline() == 'step\\n' else None"
    silent, alive, dying = (
        Peer.spawn(name, [sys.executable, "-c", source], tmp_path)
        for name, source in (("silent", "input(); input()"), ("alive", echo), ("dying", "input()"))
    )
    try:
        assert all(peer.request() for peer in (silent, alive, dying))
        assert not await_replies([silent, dying])
        assert await_replies([alive])
        assert alive.steps == [{}]
    finally:
        for peer in (silent, alive, dying):
            peer.stop()
