"""Where an experiment's numbers were made."""

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path

_PACKAGES = ("tensorflow", "keras", "numpy", "albert-tf")


def environment() -> dict[str, str | int]:
    """Versions, machine and date, for `Results.environment`; imports none of the packages."""
    return {
        "python": platform.python_version(),
        **{name.replace("-", "_"): _version(name) for name in _PACKAGES},
        "machine": _processor(),
        "cores": os.cpu_count() or 1,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """The processor's name, which Linux keeps in a file and `platform` does not know."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {platform.system()}"
