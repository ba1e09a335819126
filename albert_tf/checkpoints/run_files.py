"""The files in a run's folder. Imports no TensorFlow, so that `albert plot` starts at once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_prep.errors import InputError
from data_prep.files import Integer, as_record, decode_json_lines, read_json, read_json_object, read_text

SETTINGS_FILE = "settings.json"
MANIFEST_FILE = "data_manifest.json"
METRICS_FILE = "metrics.jsonl"
MODEL_FILE = "model.keras"  # of fine-tuning, like the next
RESULTS_FILE = "results.json"
CHECKPOINTS = "checkpoints"
BEST_FILE = "best.json"


def differences(stored: Mapping[str, Any], received: Mapping[str, Any]) -> list[str]:
    """What is received with another value than the stored one, for messages."""
    return [
        f"{name} is {stored.get(name)}, received {value}"
        for name, value in received.items()
        if stored.get(name) != value
    ]


def check_same_run(run: Path, what: str, stored: Mapping[str, Any], received: Mapping[str, Any]) -> None:
    """Raises InputError if what a run must keep differs from that with which it started.

    Args:
      run: its folder.
      what: that is compared, in words.
      stored: the values in its files.
      received: the values now.
    """
    if different := differences(stored, received):
        raise InputError(
            f"{run} holds a run with other {what}: {'; '.join(different)}. Use the same {what} to resume it, or "
            "another --output_dir for a new run."
        )


def check_same_flags(plan: Any, path: Path, fixed: Iterable[str]) -> None:
    """`check_same_run` for the flags that a run must keep.

    Args:
      plan: a dataclass of flags.
      path: the run's settings.json.
      fixed: the names of the flags.
    """
    earlier = read_json_object(path)
    stored, received = ({f"--{name}": values.get(name) for name in fixed} for values in (earlier, vars(plan)))
    check_same_run(path.parent, "flags", stored, received)


def read_best_step(run: Path) -> int | None:
    """The step of the checkpoint with the best held-out loss; None if none is recorded."""
    path = run / BEST_FILE
    return as_record(_Best, read_json(path), path).step if path.exists() else None


@dataclass(frozen=True)
class _Best:
    step: int


def read_metrics(run: Path) -> list[dict]:
    """All complete lines of a run's metrics.jsonl, without a last line that a kill cut short.

    Raises:
      InputError: a line is not a JSON object of numbers with a step.
    """
    path = Path(run) / METRICS_FILE
    if not path.exists():
        return []
    complete, _, _ = read_text(path).rpartition("\n")
    lines = decode_json_lines(complete, dict[str, Integer | float], path) if complete else []
    if not all("step" in line for line in lines):
        raise InputError(f"Every line of {path} must have a `step`. There is one without.")
    return lines


@dataclass(frozen=True)
class _Results:
    best_seed: Integer | None = None


def best_seed_folder(run: Path) -> Path | None:
    """The folder of the best seed of a fine-tuning run; None if `run` is not one."""
    path = run / RESULTS_FILE
    best = as_record(_Results, read_json_object(path), path).best_seed if path.exists() else None
    return None if best is None else run / f"seed_{best}"
