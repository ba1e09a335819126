"""What the results in a folder depend on: a command must not show those of other flags or files as its own."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from data_prep.errors import InputError
from data_prep.files import read_json_object, write_json


def check_conditions(folder: Path, experiment: str, conditions: Mapping[str, Any]) -> None:
    """Records the conditions of an experiment in its folder; later commands must have the same.

    Args:
      folder: the experiment's output, created if necessary.
      experiment: begins the name of the file; several experiments may share a folder.
      conditions: flag -> its value, or the `facts_of` the files that it names.

    Raises:
      InputError: the folder cannot be created, or holds results under other conditions.
    """
    path = folder / f"{experiment}.conditions.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--output must be a writable folder. Received {folder}: {error.strerror}."
        ) from None
    if not path.is_file() or not _has_results(folder):
        write_json(path, conditions)
    for name, earlier in read_json_object(path).items():
        if name in conditions and conditions[name] != earlier:
            raise InputError(
                f"{folder} holds results with --{name} of {earlier}. Received {conditions[name]}; use another "
                "--output."
            )


def _has_results(folder: Path) -> bool:
    """Whether there is anything but conditions and links to text."""
    files = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return any(not file.name.endswith(".conditions.json") for file in files)


def facts_of(paths: Iterable[Path]) -> str:
    """The number of files, their size, and the beginning of a hash of all names and sizes."""
    files = [(path.name, path.stat().st_size) for path in paths]
    names = hashlib.sha256(repr(sorted(files)).encode()).hexdigest()[:12]
    return f"{len(files):,} files, {sum(size for _, size in files):,} bytes ({names})"
