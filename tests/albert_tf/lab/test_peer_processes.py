"""Processes that compute in turns; the benchmarks' tests compare what they reply."""

import os
import subprocess
import sys
from pathlib import Path

from albert_tf.lab.peer_processes import Peer

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
