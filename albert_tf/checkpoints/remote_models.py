"""Models in object stores, at any address that fsspec reads. What a model needs is copied.

CACHE/models/ADDRESS/VERSION/NAME holds one version of it, where ADDRESS and VERSION are hashes. Its files are
links to those in the cache of `fetch`, so that versions share equal files.
"""

import contextlib
import glob
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from albert_tf.checkpoints import archives
from albert_tf.checkpoints.downloads import needed_files
from albert_tf.checkpoints.run_files import (
    BEST_FILE,
    CHECKPOINTS,
    MODEL_FILE,
    RESULTS_FILE,
    best_seed_folder,
    read_best_step,
)
from albert_tf.config import CONFIG_FILE
from data_prep.files import cache_folder, is_hidden
from data_prep.storage.access import MissingFileError, StorageError
from data_prep.storage.cache import fetch
from data_prep.storage.objects import files_below, find, join
from data_prep.storage.paths import naming_address

_TRIES = 3  # of a model that is written while it is copied
_SECONDS_KEPT = 86_400  # of a version that is not the newest: another process may read it
_FACT = re.compile(r"\.(json|model)$|vocab[^/]*\.txt$")  # configuration, settings, results, vocabulary
_PREDICTED = re.compile(r"_(predictions|null_odds)\.json$")  # beside the facts of a fine-tuned model
_PART = re.compile(r"^checkpoint$|\.(index|data-\d+-of-\d+)$")  # of TF1 checkpoints
_STEP = re.compile(rf"{CHECKPOINTS}/ckpt-(\d+)\.index")


@contextlib.contextmanager
def copied_model(address: str) -> Iterator[Path]:
    """The local copy of a model; errors in the block name the address instead.

    Args:
      address: of a folder or a file that `open_model` reads, or of a checkpoint without .index.

    Raises:
      InputError: there is no model, or the store refuses or does not answer.
    """
    for _ in range(_TRIES):
        folder, names, model = _needed(address.rstrip("/"))
        try:
            copy = _copied(folder, {name: fetch(join(folder, name)) for name in names})
            break
        except (MissingFileError, FileNotFoundError):  # the run removed it, or the cache
            continue
    else:
        raise StorageError(
            f"{address} changed {_TRIES} times while it was copied. Run the same command again."
        )
    with naming_address(copy, folder):
        yield copy / model


def _needed(address: str) -> tuple[str, list[str], str]:
    """The address of a model's folder, the names of what is needed there, and the model's own name there.

    An archive is a folder itself, and needs no names.
    """
    names = [name for name in files_below(address) if not is_hidden(name)]
    if names:
        return address, _needed_of_folder(address, names), ""
    folder, _, name = address.rpartition("/")
    beside, prefix = _names_in(folder), name.removesuffix(".index")
    if f"{prefix}.index" in beside:
        files = [other for other in beside if other.startswith(f"{prefix}.")]
        run = folder.removesuffix(f"/{CHECKPOINTS}")
        if run != folder and CONFIG_FILE in (in_run := _names_in(run)):
            files = [f"{CHECKPOINTS}/{file}" for file in files]
            return run, [*_facts(in_run), *files], f"{CHECKPOINTS}/{prefix}"
        return folder, sorted({*_facts(beside), *files}), prefix
    if name not in beside:
        raise MissingFileError(f"There is no model at {address}: no folder, no file and no checkpoint.")
    if name.endswith(archives.SUFFIXES):
        return address, [], ""
    return folder, sorted({*_facts(beside), name}), name


def _needed_of_folder(address: str, names: Collection[str]) -> list[str]:
    """What is needed of a folder: of a run, its facts and the weights that `open_model` takes."""

    def copied(name: str) -> Path:
        return fetch(join(address, name)).parent

    here = [name for name in names if "/" not in name]
    if MODEL_FILE in here:
        return [*_facts(here), MODEL_FILE]
    if RESULTS_FILE in here and (seed := best_seed_folder(copied(RESULTS_FILE))):
        inside = [name for name in names if name.startswith(f"{seed.name}/") and name.count("/") == 1]
        return [*_facts(here), *_facts(inside), *(name for name in inside if name.endswith(f"/{MODEL_FILE}"))]
    if steps := [int(found[1]) for found in map(_STEP.fullmatch, names) if found]:
        best = read_best_step(copied(BEST_FILE)) if BEST_FILE in here else None
        prefix = f"{CHECKPOINTS}/ckpt-{best if best in steps else max(steps)}."
        return [*_facts(here), *(name for name in names if name.startswith(prefix))]
    return sorted({*_facts(here), *needed_files(names), *filter(_PART.search, here)})


def _names_in(folder: str) -> list[str]:
    """The names of the files in a folder, without those of its subfolders."""
    return [address.rpartition("/")[2] for address in find(f"{glob.escape(folder)}/*")]


def _facts(names: Collection[str]) -> list[str]:
    return [name for name in names if _FACT.search(name) and not _PREDICTED.search(name)]


def _copied(address: str, files: Mapping[str, Path]) -> Path:
    """The folder with these files under their names; without names, with the content of the archive.

    Raises:
      FileNotFoundError: the cache has removed a file since it was fetched.
    """
    archive = None if files else fetch(address)
    folder = cache_folder() / "models" / _hash(address)
    # `fetch` names the folder of a file after its address and version.
    versions = sorted((name, path.parent.name) for name, path in files.items())
    entry = folder / _hash(archive.parent.name if archive else versions)
    copy = entry / (address.rpartition("/")[2] or "model")
    if not copy.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=folder) as temporary:
            version = Path(temporary, "version")
            if archive:
                _unpack(archive, version / copy.name, address)
            for name, path in files.items():
                _link(path, version / copy.name / name)
            try:
                version.rename(entry)
            except OSError:
                if not copy.exists():  # if it exists, another process was faster
                    raise
        for other in folder.iterdir():
            if time.time() - other.stat().st_mtime > _SECONDS_KEPT:
                shutil.rmtree(other, ignore_errors=True)
    os.utime(entry)
    return copy


def _hash(value: object) -> str:
    return hashlib.sha256(str(value).encode()).hexdigest()[:12]


def _unpack(archive: Path, folder: Path, address: str) -> None:
    content = folder.with_name("content")
    content.mkdir(parents=True)
    with naming_address(archive, address):
        archives.unpack(archive, content).rename(folder)
    shutil.rmtree(content, ignore_errors=True)


def _link(path: Path, link: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    try:
        link.hardlink_to(path)
    except FileNotFoundError:
        raise
    except OSError:  # the file system has no such links
        shutil.copyfile(path, link)
