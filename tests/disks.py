"""File systems of a test's own."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted_disk(folder: Path, options: str) -> Iterator[None]:
    """Mounts a tmpfs on an existing folder; without root's rights the test is skipped."""
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", folder]
    if os.getuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a disk needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
