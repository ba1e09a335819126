"""Where an experiment ran."""

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path


def describe_environment() -> dict[str, str | int]:
    """Versions, machine and date, for results.json; imports neither TensorFlow nor Keras."""
    versions = {name.replace("-", "_"): _version(name) for name in ("tensorflow", "keras", "albert-tf")}
    return {
        "python": platform.python_version(),
        **versions,
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}",
        "cores": os.cpu_count() or 1,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # run from a checkout, or tensorflow-tpu in place of it
        return "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"
