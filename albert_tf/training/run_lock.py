"""One process at a time trains in a folder."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import filelock

from data_prep.errors import InputError
from data_prep.files import check_is_folder, new_folder, read_json_object, write_json

_LOCK_FILE = ".lock"
_HOLDER_FILE = ".lock.json"  # describes the process that holds the lock


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keeps other processes out of a run's folder, which is created if need be.

    The operating system releases the lock when the process ends, for whatever reason. On file systems that share
    locks between machines, such as NFS, it also keeps other machines out.

    Raises:
      InputError: another process holds the lock, or the folder is a file or cannot be written.
    """
    check_is_folder("output_dir", folder)
    with contextlib.ExitStack() as stack:
        lock = filelock.FileLock(folder / _LOCK_FILE)
        try:
            stack.enter_context(new_folder(folder))
            lock.acquire(timeout=0)
            stack.callback(_release, lock, folder)
            write_json(folder / _HOLDER_FILE, {"process": os.getpid(), "host": socket.gethostname()})
        except filelock.Timeout:
            raise InputError(
                f"One process at a time may train in a folder. {folder} is in use by {_holder(folder)}; wait "
                "until it has ended, or use another --output_dir."
            ) from None
        except OSError as error:
            raise InputError(f"{folder} cannot be written: {error.strerror}.") from None
        yield


def _release(lock: filelock.BaseFileLock, folder: Path) -> None:
    """Releases the lock, and removes its file if the run wrote nothing else."""
    (folder / _HOLDER_FILE).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):  # someone deleted the folder
        if {path.name for path in folder.iterdir()} == {_LOCK_FILE}:
            (folder / _LOCK_FILE).unlink()
    lock.release()


def _holder(folder: Path) -> str:
    try:
        holder = read_json_object(folder / _HOLDER_FILE)
        return f"process {holder['process']} on {holder['host']}"
    except (InputError, KeyError):
        return "another process"
