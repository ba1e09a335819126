"""Files that every machine of a cluster sees: on a shared disk, or behind a scheme that Apache Beam knows (gs://)."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from data_prep.errors import InputError
from data_prep.examples.manifest import MANIFEST, Manifest, manifests_in
from data_prep.prepare.outputs import is_file_address
from data_prep.storage.paths import shown
from data_prep.text.sources import STANDARD_INPUT, expand_files, is_dataset, split_patterns


def expand_names(patterns: str) -> list[str]:
    """Like `sources.expand_files`, for remote files and globs too; the names mean the same on every machine."""
    if "://" not in patterns:
        return [_shared_name(path) for path in expand_files(patterns)]
    names: dict[str, None] = {}
    for pattern in split_patterns(patterns):
        found = _matches(pattern) if is_file_address(pattern) else map(_shared_name, expand_files(pattern))
        names.update(dict.fromkeys(found))
    return list(names)


def _shared_name(path: Path) -> str:
    if path == STANDARD_INPUT:
        raise InputError("A cluster reads files. Received standard input; write the text to a file first.")
    return shown(path) if is_dataset(path) else str(path.absolute())


def _matches(pattern: str) -> list[str]:
    with _as_input_errors(pattern):
        (match,) = FileSystems.match([pattern])
    if not match.metadata_list:
        raise InputError(f"No file matches {pattern!r}. Check the name and the pattern.")
    return sorted(metadata.path for metadata in match.metadata_list)


def size_of(name: str) -> int:
    """Bytes of an input; 0 if unknown before reading."""
    if is_dataset(name):
        return 0
    if not is_file_address(name):
        return Path(name).stat().st_size
    with _as_input_errors(name):
        return FileSystems.match([name])[0].metadata_list[0].size_in_bytes


@contextlib.contextmanager
def local_file(name: str) -> Iterator[Path]:
    """An input as a local file; a remote one is copied for the duration of the `with` block."""
    if not is_file_address(name):
        yield Path(name)
        return
    with _copies([name]) as folder:
        yield folder / PurePosixPath(name).name


@contextlib.contextmanager
def _copies(names: list[str]) -> Iterator[Path]:
    """A local folder with copies of remote files of one folder, for the duration of the `with` block."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            copy = Path(folder) / PurePosixPath(name).name  # the suffix names the format
            with _as_input_errors(name), open_file(name) as source, copy.open("wb") as target:
                shutil.copyfileobj(source, target)
        try:
            yield Path(folder)
        except InputError as error:
            raise InputError(str(error).replace(folder, names[0].rpartition("/")[0])) from None


def open_file(name: str, mode: str = "r"):
    """Opens a file to read ("r") or write ("w") its bytes, without decompression."""
    opened = FileSystems.open if mode == "r" else FileSystems.create
    return opened(name, compression_type=CompressionTypes.UNCOMPRESSED)


def existing_names(outputs: list[str]) -> set[str]:
    """The names, without the folder, of the outputs that exist."""
    with _as_input_errors(outputs[0]):
        return {PurePosixPath(name).name for name in outputs if FileSystems.exists(name)}


def manifests_at(folder: str) -> list[Manifest]:
    """Like `manifest.manifests_in`, for URLs too."""
    if not is_file_address(folder):
        return manifests_in(Path(folder))
    # First, since some file systems cannot list a folder that does not exist.
    if not FileSystems.exists(f"{folder}/{MANIFEST}"):
        return []
    with _copies(_matches(f"{folder}/manifest*.json")) as copies:
        return manifests_in(copies)


def set_manifests_aside(folder: str, outputs: set[str]) -> None:
    """Makes room for a manifest in a remote folder; those that list its files are deleted."""
    for manifest in manifests_at(folder):
        assert manifest.path
        name = f"{folder}/{manifest.path.name}"
        if manifest.files & outputs:
            FileSystems.delete([name])
        elif manifest.path.name == MANIFEST and manifest.shards:
            replace_all([name], [f"{folder}/{manifest.name_when_earlier}"])


def delete_folder(folder: str) -> None:
    """Deletes the files of a folder, which exists as a folder on this machine only."""
    (match,) = FileSystems.match([f"{folder}/*"])
    if match.metadata_list:
        FileSystems.delete([f"{folder}/" if is_file_address(folder) else folder])


def replace_all(sources: Iterable[str], targets: Iterable[str]) -> None:
    """Moves files and replaces the targets."""
    targets = list(targets)
    existing = [name for name in targets if is_file_address(name) and FileSystems.exists(name)]
    if existing:  # local file systems replace them in a rename, others may refuse
        FileSystems.delete(existing)
    FileSystems.rename(list(sources), targets)


@contextlib.contextmanager
def _as_input_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, BeamIOError, OSError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise InputError(f"{name} cannot be read: {reason}.") from None
