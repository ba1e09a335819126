"""Runs peers in separate processes: PyTorch's compiler aborts beside TensorFlow."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from albert_tf.pretrained import peers

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
