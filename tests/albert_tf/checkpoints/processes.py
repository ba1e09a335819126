"""Runs peers in processes, since PyTorch's compiler aborts beside TensorFlow, and local servers in threads."""

import contextlib
import os
import socketserver
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from albert_tf.conversion import peers

needs_transformers = pytest.mark.skipif(
    not peers.is_installed("huggingface"), reason="needs the extra [peers]: transformers and torch"
)
needs_keras_hub = pytest.mark.skipif(
    not peers.is_installed("kerashub"), reason="needs the extra [peers]: keras-hub"
)


def run_python(script: str, folder: Path, *arguments: str, **environment: str) -> str:
    """The output of a script; if it fails, the test shows its errors."""
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


@contextlib.contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    """Within this context the server answers, in a thread."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))  # looks this often whether to stop
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
