"""The files of a checkpoint: written completely or not at all, and checked when they are read.

ckpt-STEP.index and ckpt-STEP.data-* are TensorFlow's; ckpt-STEP.json holds their sizes and SHA-256. A
checkpoint is intact if all of them exist and agree.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from data_prep.errors import InputError
from data_prep.files import Integer, as_record, file_sha256, read_json, write_text

_ASIDE = ".unfinished-"
_NAME = re.compile(r"ckpt-(0|[1-9][0-9]*)\.(index|json|data-[0-9]{5}-of-[0-9]{5})")


def write_checkpoint(checkpoint: tf.train.Checkpoint, folder: Path, step: int, *, good: bool) -> str:
    """Writes ckpt-STEP and its checksums; returns its path prefix.

    A process that is killed here, or a full disk, leaves nothing that counts as a checkpoint. An earlier
    checkpoint of the same step is replaced.

    Args:
      checkpoint: the values to write.
      folder: created if necessary.
      step: number of the checkpoint.
      good: whether training goes well; the guard only rolls back to good checkpoints.
    """
    aside = folder / f"{_ASIDE}{os.getpid()}"
    aside.mkdir(parents=True, exist_ok=True)
    try:
        checkpoint.write(str(aside / f"ckpt-{step}"), files_of_this_process())
        files = sorted(aside.glob(f"ckpt-{step}.*"))
        sums = {path.name: {"bytes": path.stat().st_size, "sha256": file_sha256(path)} for path in files}
        checksums = checksums_of(aside / f"ckpt-{step}")
        write_text(checksums, json.dumps({"good": good, "files": sums}) + "\n")
        for path in (*files, checksums):
            _to_disk(path)
        _remove(folder, step)
        # Data, then checksums, then index: without the last one it is not a checkpoint.
        data, index = [f for f in files if f.suffix != ".index"], [f for f in files if f.suffix == ".index"]
        for path in (*data, checksums, *index):
            path.replace(folder / path.name)
        _to_disk(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return str(folder / f"ckpt-{step}")


def files_of_this_process() -> tf.train.CheckpointOptions:
    """Makes this process read and write the files; for variables on a TPU, the TPU's machine would do so."""
    with tf.device("CPU:0"):
        return tf.train.CheckpointOptions(experimental_io_device=tf.constant(0).device)


def checksums_of(prefix: str | Path) -> Path:
    """The path of a checkpoint's checksums."""
    return Path(f"{prefix}.json")


def steps_in(folder: Path) -> list[int]:
    """Steps of the checkpoints in a folder, newest first, intact or not."""
    return sorted((step for step, path in _files_in(folder) if path.suffix == ".index"), reverse=True)


def _files_in(folder: Path) -> Iterator[tuple[int, Path]]:
    """Step and path of each file of a checkpoint; all other files in the folder are the user's."""
    for path in folder.glob("ckpt-*"):
        if (name := _NAME.fullmatch(path.name)) and path.is_file():
            yield int(name[1]), path


def is_good(prefix: str | Path) -> bool:
    """Whether training went well when an intact checkpoint was written."""
    return _read_checksums(prefix).good


def damage(prefix: str | Path) -> str | None:
    """The damage to a checkpoint's files in a few words; None if it is intact."""
    prefix = Path(prefix)
    try:
        for name, expected in _read_checksums(prefix).files.items():
            path = prefix.with_name(name)
            if path.stat().st_size != expected.bytes:
                return f"{name} has {path.stat().st_size:,} bytes instead of {expected.bytes:,}"
            if file_sha256(path) != expected.sha256:
                return f"{name} does not have the checksum that it was written with"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except ValueError:  # also InputError
        if not checksums_of(prefix).exists():
            return f"{checksums_of(prefix).name} is missing"
        return f"{checksums_of(prefix).name} is damaged"
    return None


@dataclass(frozen=True)
class _FileFacts:
    bytes: Integer
    sha256: str


@dataclass(frozen=True)
class _Checksums:
    good: bool
    files: dict[str, _FileFacts]


def _read_checksums(prefix: str | Path) -> _Checksums:
    path = checksums_of(prefix)
    return as_record(_Checksums, read_json(path), path)


def intact_checkpoints(folder: Path, say: Callable[[str], None]) -> Iterator[tuple[int, str]]:
    """Step and path prefix of the intact checkpoints, newest first; reports each damaged one in one line."""
    for step in steps_in(folder):
        prefix = str(folder / f"ckpt-{step}")
        reason = damage(prefix)
        if reason is None:
            yield step, prefix
        else:
            say(f"the checkpoint of step {step} in {folder} is damaged ({reason}); using the one before it")


def newest_intact(folder: Path, say: Callable[[str], None]) -> tuple[int, str] | None:
    """Step and path prefix of the newest intact checkpoint; None if there is no checkpoint at all.

    Raises:
      InputError: there are checkpoints, but none is intact.
    """
    newest = next(intact_checkpoints(folder, say), None)
    if newest is None and (steps := steps_in(folder)):
        raise InputError(
            f"None of the {len(steps)} checkpoints in {folder} is intact. Restore one from a copy, or use another "
            "--output_dir for a new run."
        )
    return newest


def say_on_stderr(line: str) -> None:
    """Prints a line, for programs without a progress bar."""
    print(line, file=sys.stderr, flush=True)


def prune(folder: Path, keep: int, *, needed: Collection[int | None]) -> None:
    """Deletes all but the newest `keep` checkpoints and those of the steps `needed`."""
    for step in steps_in(folder)[keep:]:
        if step not in needed:
            _remove(folder, step)


def remove_unfinished(folder: Path) -> None:
    """Deletes the incomplete checkpoints of killed processes, and no other files."""
    for path in folder.glob(f"{_ASIDE}*"):
        shutil.rmtree(path, ignore_errors=True)
    complete = set(steps_in(folder))
    for step, path in _files_in(folder):
        if step not in complete:
            path.unlink()


def _remove(folder: Path, step: int) -> None:
    paths = [path for other, path in _files_in(folder) if other == step]
    # The index first: without it the rest is not a checkpoint.
    for path in sorted(paths, key=lambda path: path.suffix != ".index"):
        path.unlink()


def _to_disk(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on disk, in case the machine is switched off next."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
