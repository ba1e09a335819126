"""The machine and the versions that numbers were measured with."""

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path

import albert_tf


def describe_environment() -> dict[str, str | int]:
    """Versions, machine and date, for results.json; imports neither TensorFlow nor Keras."""
    versions = {name: _version(name) for name in ("tensorflow", "keras")} | {
        "albert_tf": albert_tf.__version__
    }
    processor = _processor_fields().get("model name") or platform.processor() or "unknown processor"
    return {
        "python": platform.python_version(),
        **versions,
        "machine": f"{platform.system()} {platform.machine()}, {processor}",
        "cores": os.cpu_count() or 1,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def describe_processor() -> dict[str, str | list[str]]:
    """The processor's name and its instructions for bfloat16 products, for timings."""
    fields = _processor_fields()
    instructions = sorted({"avx512_bf16", "amx_bf16"} & set(fields.get("flags", "").split()))
    return {"cpu": fields.get("model name", "unknown"), "bfloat16_instructions": instructions}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # tensorflow-tpu instead
        return "unknown"


def _processor_fields() -> dict[str, str]:
    """One core's fields of /proc/cpuinfo; empty on systems without it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    fields = (line.split(":", 1) for line in lines if ":" in line)
    return {name.strip(): value.strip() for name, value in fields}
