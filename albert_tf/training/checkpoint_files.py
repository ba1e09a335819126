"""The files of a checkpoint: written so that they are whole or not there, and checked when they are read.

`ckpt-STEP.index` and `.data-*` are TensorFlow's; `ckpt-STEP.json` holds their sizes and SHA-256. A checkpoint
counts only if all of them are there and agree.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import tensorflow as tf

from data_prep.errors import InputError
from data_prep.files import write_text

_ASIDE = ".unfinished-"


def write_checkpoint(checkpoint: tf.train.Checkpoint, folder: Path, step: int, *, good: bool) -> str:
    """Writes ckpt-STEP and its checksums; returns its path prefix.

    A process that is killed here, or a disk that is full, leaves nothing that counts as a checkpoint. What was
    there of the same step is replaced.

    Args:
      checkpoint: what to write.
      folder: made where it is not there.
      step: number of the checkpoint.
      good: whether training went well when it was written; the guard goes back to good ones only.
    """
    aside = folder / f"{_ASIDE}{os.getpid()}"
    aside.mkdir(parents=True, exist_ok=True)
    try:
        checkpoint.write(str(aside / f"ckpt-{step}"))
        files = sorted(aside.glob(f"ckpt-{step}.*"))
        sums = {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in files}
        for path in files:
            _to_disk(path)
        _remove(folder, step)
        # Data before checksums before index: until the last one is there, nobody takes it for a checkpoint.
        data, index = [f for f in files if f.suffix != ".index"], [f for f in files if f.suffix == ".index"]
        for path in data:
            path.replace(folder / path.name)
        write_text(manifest_of(folder / f"ckpt-{step}"), json.dumps({"good": good, "files": sums}) + "\n")
        for path in index:
            path.replace(folder / path.name)
        _to_disk(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return str(folder / f"ckpt-{step}")


def manifest_of(prefix: str | Path) -> Path:
    """Where the checksums of a checkpoint are."""
    return Path(f"{prefix}.json")


def steps_in(folder: Path) -> list[int]:
    """Steps of the checkpoints in a folder, newest first, whole or not."""
    names = (path.name.removeprefix("ckpt-").removesuffix(".index") for path in folder.glob("ckpt-*.index"))
    return sorted((int(name) for name in names if name.isdigit()), reverse=True)


def is_good(prefix: str | Path) -> bool:
    """Whether training went well when the checkpoint, which is whole, was written."""
    return json.loads(manifest_of(prefix).read_text(encoding="utf-8"))["good"]


def damage(prefix: str | Path) -> str | None:
    """What is wrong with a checkpoint's files, in a few words; None if they are as they were written."""
    prefix = Path(prefix)
    try:
        sums = json.loads(manifest_of(prefix).read_text(encoding="utf-8"))["files"]
        for name, expected in sums.items():
            path = prefix.with_name(name)
            if path.stat().st_size != expected["bytes"]:
                return f"{name} has {path.stat().st_size:,} bytes instead of {expected['bytes']:,}"
            if _sha256(path) != expected["sha256"]:
                return f"{name} has another checksum than when it was written"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{manifest_of(prefix).name} is not what was written"
    return None


def whole_checkpoints(folder: Path, say: Callable[[str], None]) -> Iterator[tuple[int, str]]:
    """Step and path prefix of the checkpoints that are whole, newest first; a line for each that is not."""
    for step in steps_in(folder):
        prefix = str(folder / f"ckpt-{step}")
        reason = damage(prefix)
        if reason is None:
            yield step, prefix
        else:
            say(f"the checkpoint of step {step} in {folder} is damaged ({reason}); using the one before it")


def newest_whole(folder: Path, say: Callable[[str], None]) -> tuple[int, str] | None:
    """Step and path prefix of the newest whole checkpoint; None where there is no checkpoint at all.

    Raises:
      InputError: there are checkpoints, and none is whole.
    """
    newest = next(whole_checkpoints(folder, say), None)
    if newest is None and (steps := steps_in(folder)):
        raise InputError(
            f"None of the {len(steps)} checkpoints in {folder} is whole. Put a good copy of one back, or use "
            "another --output_dir for a new run."
        )
    return newest


def say_on_stderr(line: str) -> None:
    """For programs without a progress bar."""
    print(line, file=sys.stderr, flush=True)


def prune(folder: Path, keep: int, *, needed: int) -> None:
    """Deletes all but the newest `keep` checkpoints and the one of step `needed`."""
    for step in steps_in(folder)[keep:]:
        if step != needed:
            _remove(folder, step)


def remove_unfinished(folder: Path) -> None:
    """Deletes what a killed process was writing."""
    for path in folder.glob(f"{_ASIDE}*"):
        shutil.rmtree(path, ignore_errors=True)
    whole = {f"ckpt-{step}" for step in steps_in(folder)}
    for path in folder.glob("ckpt-*"):
        if path.name.split(".")[0] not in whole:
            path.unlink()


def _remove(folder: Path, step: int) -> None:
    (folder / f"ckpt-{step}.index").unlink(missing_ok=True)  # first: without it the rest is no checkpoint
    for path in folder.glob(f"ckpt-{step}.*"):
        path.unlink()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _to_disk(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk: a machine may be switched off next."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
