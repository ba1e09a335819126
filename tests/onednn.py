"""The kernels that a program runs, as oneDNN's log has them."""

import os
import subprocess
import sys

import pytest


def onednn_kernels(program: str, *arguments: str) -> list[str]:
    """Runs a program in a process of its own; a line for each kernel that TensorFlow calls through oneDNN.

    Skips the test where TensorFlow has none for the program's data type on this processor.
    """
    # TensorFlow uses oneDNN unasked only on some processors.
    settings = {"ONEDNN_VERBOSE": "1", "TF_ENABLE_ONEDNN_OPTS": "1", "KERAS_BACKEND": "tensorflow"}
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | settings,
        check=True,
    )
    calls = [line for line in run.stdout.splitlines() if line.startswith("onednn_verbose,v1,primitive,exec,")]
    # Eigen's products call oneDNN's gemm_api, whatever TensorFlow uses.
    kernels = [line for line in calls if ",gemm_api," not in line]
    if not kernels:
        pytest.skip("TensorFlow runs this program without oneDNN on this processor")
    return kernels
