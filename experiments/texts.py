"""Files of text for experiments: some held out, and links to them in folders of their own."""

import hashlib
import os
from pathlib import Path

from data_prep.errors import InputError

_HELD_OUT = 20  # one file in this many
_FEWEST_HELD_OUT = 2  # documents, because a next sentence comes from another one


def split_files(paths: list[Path]) -> tuple[list[Path], list[Path]]:
    """Splits at least three files into training and held-out ones, depending on their names alone."""
    if len(paths) <= _FEWEST_HELD_OUT:
        raise InputError(
            f"Text must be in at least {_FEWEST_HELD_OUT + 1} files, of which {_FEWEST_HELD_OUT} are held out. "
            f"Received {len(paths)}."
        )
    shuffled = by_hash(paths)
    number = max(_FEWEST_HELD_OUT, len(paths) // _HELD_OUT)
    return shuffled[number:], shuffled[:number]


def by_hash(paths: list[Path]) -> list[Path]:
    """Files in an arbitrary but reproducible order: by the hash of their names."""
    return sorted(paths, key=lambda path: hashlib.sha256(os.fsencode(path.name)).digest())


def link_files(paths: list[Path], folder: Path) -> str:
    """Makes a folder hold links to these files and nothing else; returns their glob."""
    folder.mkdir(parents=True, exist_ok=True)
    for link in folder.iterdir():
        link.unlink()
    for number, path in enumerate(paths):
        name = path.name.replace(",", "")  # a comma would separate two names
        (folder / f"{number:05d}-{name}").symlink_to(path.absolute())
    return f"{folder}/*"
