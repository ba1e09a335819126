"""A laboratory's folder: one text and one set of settings, so that all runs in it can be compared.

DIR/laboratory.json says which; DIR/data, DIR/runs and a folder of each experiment lie beside it.
"""

import json
from pathlib import Path
from typing import Any

from albert_tf.lab.settings import LabSettings
from data_prep.errors import InputError
from data_prep.files import write_text

LABORATORY_FILE = "laboratory.json"
_FLAGS = (
    "input_file",
    "heldout_file",
    "input_format",
    "language",
    "spm_model_file",
    "scale",
    "num_train_steps",
    "num_warmup_steps",
    "train_batch_size",
    "learning_rate",
    "max_seq_length",
    "vocab_size",
    "mixed_precision",
)


def fixed_settings(settings: LabSettings, text: str) -> dict[str, Any]:
    """What fixes the numbers of all experiments in a laboratory.

    Args:
      settings: resolved.
      text: a hash of the files.
    """
    return {**{name: getattr(settings, name) for name in _FLAGS}, "text": text}


def open_laboratory(settings: LabSettings, text: str) -> None:
    """Makes the folder, or checks that what has been made in it is of the same settings and text.

    Args:
      settings: resolved.
      text: a hash of the files.

    Raises:
      InputError: it is of others.
    """
    make_folder(settings.folder)
    path, fixed = settings.folder / LABORATORY_FILE, fixed_settings(settings, text)
    if path.exists() and _has_begun(settings.folder):
        there = _read(path)
        for name, value in fixed.items():
            if there.get(name) != value:
                what, old = ("files", "others") if name == "text" else (f"--{name}", there.get(name))
                raise InputError(
                    f"{settings.output} is a laboratory with {what} {old}, and its runs are to be compared. "
                    f"Received {'these' if name == 'text' else value}; use the same, or another --output."
                )
        return
    write_text(path, json.dumps(fixed, indent=2) + "\n")


def make_folder(folder: Path) -> None:
    """Makes a folder unless it is there.

    Raises:
      InputError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--output must be a folder that can be written. Received {folder}: {error.strerror}."
        ) from None


def _has_begun(folder: Path) -> bool:
    """Whether there is a vocabulary, an example or a run: until then other settings do no harm."""
    return any(any(folder.glob(pattern)) for pattern in ("runs/*", "data/*.model", "data/*/*/*"))


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise InputError(f"{path} is damaged. Name another --output.") from None
