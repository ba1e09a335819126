"""One process at a time trains in a folder."""

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import filelock

from data_prep.errors import InputError
from data_prep.files import read_json_object, write_json

_LOCK_FILE = ".lock"
_HOLDER_FILE = ".lock.json"  # the process that holds the lock, or held it last


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keeps other processes out of a run's folder, which is created if need be.

    The operating system ends the lock with the process, however that ends. On file systems that pass locks on,
    such as NFS, it also keeps other machines out.

    Raises:
      InputError: another process holds the lock, or the folder cannot be written.
    """
    is_new = not folder.exists()
    lock = filelock.FileLock(folder / _LOCK_FILE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise InputError(
            f"One process at a time may train in a folder. {folder} is in use by {_holder(folder)}; wait until it "
            "has ended, or use another --output_dir."
        ) from None
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error}.") from None
    try:
        write_json(folder / _HOLDER_FILE, {"process": os.getpid(), "host": socket.gethostname()})
        yield
    finally:
        lock.release()
        if is_new and {path.name for path in folder.iterdir()} <= {_LOCK_FILE, _HOLDER_FILE}:
            shutil.rmtree(folder)  # an error occurred before the run wrote anything


def _holder(folder: Path) -> str:
    try:
        holder = read_json_object(folder / _HOLDER_FILE)
        return f"process {holder['process']} on {holder['host']}"
    except (InputError, KeyError):
        return "another process"
