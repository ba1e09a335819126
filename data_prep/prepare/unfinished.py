"""The folder in which a run keeps what it has done, so that the same command goes on after a kill."""

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
    """Gives a folder that outlives a failure, and is gone after success.

    Args:
      folder: it may hold what an earlier run with the same plan has left.
      plan: name -> value, for JSON: all that decides what is written there.

    Raises:
      InputError: the folder holds the work of another plan, or another run is using it.
    """
    folder.mkdir(exist_ok=True)
    with _lock(folder):
        if (folder / _PLAN).is_file():
            _check_plan(folder, plan)
        else:  # killed before it had even begun
            write_text(folder / _PLAN, json.dumps(plan, indent=2))
        try:
            yield folder
        except InputError as error:
            if not _finished_work(folder):
                shutil.rmtree(folder)
                raise
            raise InputError(
                f"{error} What is finished is kept in {folder}; the same command goes on from there."
            ) from None
        shutil.rmtree(folder)


def _finished_work(folder: Path) -> bool:
    """Whether there is anything to go on with: only whole results have a .json beside the plan."""
    return any(path.name != _PLAN for path in folder.glob("*.json"))


def _check_plan(folder: Path, plan: dict) -> None:
    earlier = json.loads((folder / _PLAN).read_text(encoding="utf-8"))
    if not _finished_work(folder):
        write_text(folder / _PLAN, json.dumps(plan, indent=2))
        return
    for name in {**earlier, **plan}:
        if earlier.get(name) != plan.get(name):
            raise InputError(
                f"A run goes on with the settings that it began with. {folder} holds unfinished work for which "
                f"`{name}` was {earlier.get(name)!r}, and now it is {plan.get(name)!r}; run the first command "
                "again to finish it, or delete the folder to start over."
            )


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Only one run at a time; the system lets go of the lock of a killed process."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"Only one run may write the same files. Another one is working in {folder}; wait until it ends."
            ) from None
        yield
