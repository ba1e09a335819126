"""What rows are called: `NAME=PATH` on the command line, or the folder's own name."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from albert_tf.errors import InputError

_SEED = re.compile(r"seed[-_](\d+)")


@dataclass(frozen=True)
class Labelled:
    """A path on the command line.

    Attributes:
      name: of its row; several paths of one name are seeds of one row.
      path: as it was given, without the name.
      seed: as the folder's name has it, for instance seed-3; None where it has none.
    """

    name: str
    path: str
    seed: int | None = None


def labelled(arguments: Sequence[str]) -> list[Labelled]:
    """Reads arguments of the form PATH or NAME=PATH.

    A folder that holds seed-1, seed-2, ... stands for all of them, and is their name. Where two different paths
    end in the same name, as much of them is taken as tells them apart.

    Raises:
      InputError: NAME= without a path.

    >>> labelled(["BERT=runs/none/seed-1", "albert_large.tar.gz"])
    [Labelled('BERT', 'runs/none/seed-1', 1), Labelled('albert_large', 'albert_large.tar.gz', None)]
    """
    given: list[tuple[str, str]] = []
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or Path(argument).exists():
            name, path = "", argument
        if not path:
            raise InputError(f"A model is PATH or NAME=PATH. Received {argument!r}.")
        given += [(name, each) for each in _seeds(path)]
    own = [_without_seed(path) for name, path in given if not name]
    short = dict(zip(own, _distinct(own), strict=True))
    return [Labelled(name or short[_without_seed(path)], path, _seed(path)) for name, path in given]


def _seeds(path: str) -> list[str]:
    """The folder's seeds in their order, or itself."""
    folder = Path(path)
    found = [each for each in folder.glob("seed[-_]*") if _SEED.fullmatch(each.name)] if folder.is_dir() else []
    return [str(each) for each in sorted(found, key=lambda each: _seed(str(each)) or 0)] or [path]


def _seed(path: str) -> int | None:
    match = _SEED.fullmatch(Path(path).name)
    return int(match[1]) if match else None


def _without_seed(path: str) -> str:
    return path.rstrip("/") if _seed(path) is None else str(Path(path).parent)


def _distinct(paths: Sequence[str]) -> list[str]:
    """The paths' last parts without the archives' endings, as many parts as tell different paths apart."""
    different = dict.fromkeys(paths)
    for length in range(1, max((len(Path(path).parts) for path in paths), default=0) + 1):
        short = {path: "/".join(Path(path).parts[-length:]).removesuffix(".tar.gz") for path in different}
        if Counter(short.values()).most_common(1)[0][1] == 1:
            return [short[path] for path in paths]
    return list(paths)
