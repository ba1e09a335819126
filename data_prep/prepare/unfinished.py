"""The folder in which a run keeps finished work, so that the same command resumes it after a failure."""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from data_prep.errors import InputError
from data_prep.files import write_text

_PLAN = "plan.json"
_LOCK = "lock"


@contextlib.contextmanager
def unfinished_folder(folder: Path, plan: dict) -> Iterator[Path]:
    """Yields a folder that survives a failure and is deleted after success.

    It may hold the work of an earlier run with the same plan: everything that decides its content, for JSON.
    """
    folder.mkdir(exist_ok=True)
    with _lock(folder):
        if finished_work(folder):
            _check_plan(folder, plan)
        else:
            _empty(folder)
            write_text(folder / _PLAN, json.dumps(plan, indent=2))
        try:
            yield folder
        except InputError as error:
            if not finished_work(folder):
                _delete(folder)
                raise
            raise InputError(f"{error} Finished work is kept in {folder}.") from None
        _delete(folder)


def finished_work(folder: Path) -> bool:
    """Whether a run can resume: complete results, which have a .json, and the plan that they follow."""
    return _earlier_plan(folder) is not None and any(path.name != _PLAN for path in folder.glob("*.json"))


def _earlier_plan(folder: Path) -> dict | None:
    """The plan of an earlier run; None if it is missing or empty (power failure)."""
    try:
        return json.loads((folder / _PLAN).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def _empty(folder: Path) -> None:
    """Removes the files of a run that was killed at its start or while it deleted its folder."""
    for path in folder.iterdir():
        if path.name != _LOCK:
            path.unlink()


def _delete(folder: Path) -> None:
    """Deletes the folder, the plan first: results without a plan are never resumed."""
    (folder / _PLAN).unlink()
    shutil.rmtree(folder)


def _check_plan(folder: Path, plan: dict) -> None:
    earlier = _earlier_plan(folder) or {}
    for name in {**earlier, **plan}:
        if earlier.get(name) != plan.get(name):
            raise InputError(
                f"A run resumes with the settings that it began with. {folder} holds unfinished work with "
                f"{name}={earlier.get(name)}. Received {plan.get(name)}; run the first command again to finish "
                "it, or delete the folder to start over."
            )


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Allows only one run at a time; the system releases the lock of a killed process.

    Windows, and some file systems, such as Lustre as it is usually mounted, have no such locks and do not keep a
    second run out.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with (folder / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"Only one run may write the same files. Another one uses {folder}; wait until it ends."
            ) from None
        except OSError:
            pass  # no locks here
        yield
