"""The names of the files in a run's folder; settings.json, written and compared."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data_prep.errors import InputError

CONFIG_FILE = "albert_config.json"
SETTINGS_FILE = "settings.json"
MANIFEST_FILE = "data_manifest.json"
CHECKPOINTS = "checkpoints"


def settings_json(settings: Any) -> str:
    """The text of the file, of a dataclass of flags."""
    return json.dumps(dataclasses.asdict(settings), indent=2) + "\n"


def check_same_run(settings: Any, path: Path, fixed: Sequence[str]) -> None:
    """Raises InputError where a flag has another value than the run was started with.

    Args:
      settings: a dataclass of flags.
      path: the run's settings.json.
      fixed: the flags that would make it another run.
    """
    earlier = json.loads(path.read_text(encoding="utf-8"))
    for name in fixed:
        if earlier.get(name) != getattr(settings, name):
            raise InputError(
                f"{path.parent} holds a run with --{name}={earlier.get(name)}, so it cannot go on with "
                f"{getattr(settings, name)}. Use the same value, or another --output_dir for a new run."
            )
