"""The processor cores of a process."""

import os


def available_cores() -> int:
    """The number of cores that this process may use."""
    # macOS and Windows cannot restrict a process to some of the cores.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
