"""The folder in which a run keeps finished work, so that the same command resumes it after a failure."""

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from data_prep.errors import InputError
from data_prep.files import write_text

_PLAN = "plan.json"


@contextlib.contextmanager
def unfinished_folder(folder: Path, plan: dict) -> Iterator[Path]:
    """Yields a folder that survives a failure and is deleted after success.

    Args:
      folder: may hold the work of an earlier run with the same plan.
      plan: name -> value, for JSON: everything that decides the content of the folder.

    Raises:
      InputError: the folder holds the work of another plan, or another run uses it.
    """
    folder.mkdir(exist_ok=True)
    with _lock(folder):
        if (folder / _PLAN).is_file():
            _check_plan(folder, plan)
        else:  # an earlier run was killed at its start
            write_text(folder / _PLAN, json.dumps(plan, indent=2))
        try:
            yield folder
        except InputError as error:
            if not finished_work(folder):
                shutil.rmtree(folder)
                raise
            raise InputError(f"{error} Finished work is kept in {folder}.") from None
        shutil.rmtree(folder)


def finished_work(folder: Path) -> bool:
    """Whether there is anything to resume: only complete results have a .json beside the plan."""
    return any(path.name != _PLAN for path in folder.glob("*.json"))


def _check_plan(folder: Path, plan: dict) -> None:
    earlier = json.loads((folder / _PLAN).read_text(encoding="utf-8"))
    if not finished_work(folder):
        write_text(folder / _PLAN, json.dumps(plan, indent=2))
        return
    for name in {**earlier, **plan}:
        if earlier.get(name) != plan.get(name):
            raise InputError(
                f"A run resumes with the settings that it began with. {folder} holds unfinished work with "
                f"{name}={earlier.get(name)}. Received {plan.get(name)}; run the first command again to finish "
                "it, or delete the folder to start over."
            )


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Allows only one run at a time; the system releases the lock of a killed process."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"Only one run may write the same files. Another one uses {folder}; wait until it ends."
            ) from None
        yield
