"""Paths on the command line and the names of their rows: NAME=PATH, or the folder's own name."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_prep.errors import InputError

_SEED = re.compile(r"seed[-_](\d+)")


@dataclass(frozen=True)
class NamedPath:
    """A path on the command line.

    Attributes:
      name: the row's name; several paths with the same name are seeds of one row.
      path: the path as given, without the name.
      seed: from a folder's name such as seed-3; None without one.
    """

    name: str
    path: str
    seed: int | None = None


def parse_named_paths(arguments: Sequence[str]) -> list[NamedPath]:
    """Parses arguments PATH or NAME=PATH; a path without a name gets the name of its folder.

    Raises:
      InputError: NAME= without a path.

    >>> parse_named_paths(["BERT=runs/none/seed-1", "albert_large.tar.gz"])
    [NamedPath(name='BERT', path='runs/none/seed-1', seed=1),
     NamedPath(name='albert_large', path='albert_large.tar.gz', seed=None)]
    """
    given = split_names(arguments)
    short = short_names(_without_seed(path) for name, path in given if not name)
    return [NamedPath(name or short[_without_seed(path)], path, seed_of(path)) for name, path in given]


def split_names(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Splits arguments into names, possibly "", and paths; a folder with seed-1, seed-2, ... becomes all of these.

    Raises:
      InputError: NAME= without a path.
    """
    given = []
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or Path(argument).exists():
            name, path = "", argument
        if not path:
            raise InputError(f"Name a folder as PATH or NAME=PATH. Received {argument!r}.")
        given += [(name, each) for each in _seeds(path)]
    return given


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """The last part of each path, without an archive's extension, or as many parts as make all paths differ.

    >>> short_names(["a/large", "b/large"])
    {'a/large': 'a/large', 'b/large': 'b/large'}
    """
    parts = {path: Path(path).parts or Path(path).resolve().parts for path in paths}  # "." has none
    for length in range(1, max(map(len, parts.values()), default=0) + 1):
        short = {path: "/".join(part[-length:]).removesuffix(".tar.gz") for path, part in parts.items()}
        if len(set(short.values())) == len(short):
            return short
    return {path: path for path in parts}


def seed_of(path: str) -> int | None:
    """The seed in the name of a folder such as seed-3 or seed_3."""
    match = _SEED.fullmatch(Path(path).name)
    return int(match[1]) if match else None


def _seeds(path: str) -> list[str]:
    """The folders of a folder's seeds in order, or the folder itself."""
    folder = Path(path)
    found = [str(each) for each in folder.glob("seed[-_]*")] if folder.is_dir() else []
    seeds = {each: seed for each in found if (seed := seed_of(each)) is not None}
    return sorted(seeds, key=lambda each: seeds[each]) or [path]


def _without_seed(path: str) -> str:
    return path.rstrip("/") if seed_of(path) is None else str(Path(path).parent)
