"""Files that are either whole or not there."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def written_aside(path: str | os.PathLike) -> Iterator[Path]:
    """Gives a temporary path beside `path`; what was written there takes its place only if the block succeeds."""
    path = Path(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a whole UTF-8 text file, or nothing."""
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Makes a folder; a failure that leaves nothing in it leaves no folder either."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):  # it holds parts to go on with
                path.rmdir()
        raise
