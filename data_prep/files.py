"""Reading small files with errors that name them; writing files that are either complete or absent."""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_prep.errors import InputError

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # not C:/, a drive


def check_local(path: str | os.PathLike) -> None:
    """Raises InputError for an address such as gs://bucket/run, which would become a local folder named "gs:"."""
    if _REMOTE.match(str(path)):
        raise InputError(
            f"Files must be on this machine. Received {path}; use a local path and copy the files, or mount the "
            "bucket."
        )


def read_text(path: str | os.PathLike) -> str:
    """The content of a UTF-8 text file, without a byte-order mark.

    Raises:
      InputError: the file cannot be read or is not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"There must be a file {path}. Received: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} must be UTF-8 text. It is not.") from None


def read_bytes(path: str | os.PathLike) -> bytes:
    """The content of a file.

    Raises:
      InputError: the file cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"There must be a file {path}. Received: {error.strerror}.") from None


def read_json(path: str | os.PathLike) -> Any:
    """The value in a JSON file.

    Raises:
      InputError: the file cannot be read or is not JSON.
    """
    try:
        return json.loads(read_text(path))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be JSON. It is not: {error}.") from None


def read_json_object(path: str | os.PathLike) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
      InputError: the file cannot be read or holds anything else.
    """
    values = read_json(path)
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold one JSON object. It holds a {type(values).__name__}.")
    return values


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Writes a value as indented JSON: a complete file, or nothing."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


@contextlib.contextmanager
def written_aside(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path beside `path` and renames it to `path` if the block succeeds."""
    check_local(path)
    path = Path(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a UTF-8 text file: a complete file, or nothing."""
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


def visible_files(folder: Path) -> list[Path]:
    """The files of a folder and its subfolders, sorted; those of a clone's .git, above all, are left out."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Creates a folder, and removes it again if the block fails and leaves it empty."""
    check_local(folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):  # not empty: it holds work that a later run resumes
                path.rmdir()
        raise
