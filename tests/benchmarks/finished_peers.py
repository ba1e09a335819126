"""Peers whose results are known."""

import subprocess
import sys

from albert_tf.lab.peer_processes import Peer


def finished_peer(name: str, steps: list[dict]) -> Peer:
    """A peer whose process has ended, with the replies of its steps; by default a step has a peak of 10 MB."""
    peer = Peer(name, subprocess.Popen([sys.executable, "-c", ""]), f"{name}.log", 3.0)
    peer.process.wait()
    peer.steps = [{"peak_megabytes": 10.0, **step} for step in steps]
    return peer
