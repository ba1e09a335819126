"""A folder that a conversion or an export writes: complete, or absent."""

import contextlib
import ctypes
import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from data_prep.errors import InputError, disk_full
from data_prep.files import check_local

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def check_replaceable(folder: Path) -> None:
    """Raises InputError for a mount point, which `replaced_folder` could not rename when all work is done."""
    if os.path.ismount(folder):  # Path.is_mount of Python 3.11 does not exist on Windows
        raise InputError(
            "The result must be written to a folder that can be renamed, so that it is complete or absent. "
            f"Received {folder}, a mount point; name a folder in it."
        )


@contextlib.contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Yields a new folder, which takes the place of `folder` and its content only if the block succeeds.

    Raises:
      InputError: `folder` cannot be written, or is a mount point.
    """
    check_local(folder)
    folder = folder.resolve()  # keeps a link, and replaces the folder that it names
    check_replaceable(folder)
    # Beside the first folder that has to be created, so that a failure leaves none.
    nearest = next(parent for parent in folder.parents if parent.exists())
    aside, before = (nearest / f".{uuid.uuid4().hex}.tmp" for _ in range(2))
    try:
        aside.mkdir()
        yield aside
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not _exchange(aside, folder):
            try:
                if folder.exists():
                    folder.rename(before)
                aside.rename(folder)
            except BaseException:  # Ctrl-C too
                if before.exists() and not folder.exists():
                    before.rename(folder)
                raise
    except Exception as error:
        if isinstance(error, OSError) or disk_full(error):  # TensorFlow has its own error
            raise InputError(f"{folder} cannot be written: {disk_full(error) or error}.") from None
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(before, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges the names of two folders at once; False where one is missing or the system cannot."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # glibc has it since 2.28
    names = (os.fsencode(path) for path in (one, other))
    return rename is not None and rename(_HERE, next(names), _HERE, next(names), _EXCHANGE) == 0
