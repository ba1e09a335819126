"""Reading small files with errors that name them; writing files that are either complete or absent."""

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeVar

import msgspec

from data_prep.errors import InputError, first_line, system_fault

T = TypeVar("T")
# Numbers of ordinary size: JSON also allows integers of thousands of digits, and floats that become infinite.
Integer = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Number = Integer | Annotated[float, msgspec.Meta(ge=-1e39, le=1e39)]
# The errors of np.load, and of the arrays of an .npz file, if the file is damaged.
NPZ_ERRORS = (
    *(OSError, ValueError, KeyError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error),
    *(SyntaxError, tokenize.TokenError),  # NumPy parses headers as Python
)
CACHE = "ALBERT_TF_CACHE"  # the environment variable
_MOST_BYTES = 1 << 30  # of a file that is read at once; a vocabulary has 2 MB, SQuAD 42 MB
ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # in JSON
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEEPEST = 100  # levels of JSON values; no file of ours or of Hugging Face has more than 10

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # not C:/, a drive


def is_remote(path: str | os.PathLike) -> bool:
    """Whether a path is an address, such as gs://bucket/run, and not a file of this machine."""
    return bool(_REMOTE.match(str(path)))


def check_local(path: str | os.PathLike) -> None:
    """Raises InputError for an address such as gs://bucket/run, which would become a local folder named "gs:"."""
    if is_remote(path):
        raise InputError(
            f"Files must be on this machine. Received {path}; use a local path and copy the files, or mount the "
            "bucket."
        )


def check_file(path: str | os.PathLike, max_bytes: int | None = None) -> None:
    """Raises InputError if a path is not a regular file (a pipe may never end), or is larger than `max_bytes`."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError) as error:  # ValueError: a null character
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"The file {path} must exist and be readable. Received: {reason}.") from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(
            f"The file {path} must exist and be readable. Received: {os.strerror(errno.EISDIR)}."
        )
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path} must be a regular file. Received a pipe or a device.")
    if max_bytes is not None and status.st_size > max_bytes:
        raise InputError(f"{path} must have at most {max_bytes:,} bytes. It has {status.st_size:,}.")


@contextlib.contextmanager
def refuse_damage(path: str | os.PathLike, what: str) -> Iterator[None]:
    """Turns every error in the block into an InputError: `path` is not `what` ("a complete HDF5 file").

    Only for calls of libraries that read files: on damaged bytes they raise errors of any class, which differ
    between their releases.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if words := system_fault(error):
            raise InputError(f"{path} cannot be read or unpacked: {words}.") from None
        raise InputError(f"{path} is not {what}: {first_line(error).rstrip('.')}.") from None


def utf8_command(begin: bytes) -> str:
    """The command that converts a text to UTF-8, for a message; `begin` shows whether it is UTF-16 or UTF-32.

    >>> utf8_command("ö".encode("utf-16"))
    '`iconv -f UTF-16 -t UTF-8`'
    """
    encoding = json.detect_encoding(begin)
    name = "LATIN1" if encoding.startswith("utf-8") else re.sub("-([BL]E)", r"\1", encoding.upper())
    return f"`iconv -f {name} -t UTF-8`"


def read_text(path: str | os.PathLike) -> str:
    """The content of a UTF-8 text file, without a byte-order mark."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} must be UTF-8 text. It is not.") from None


def read_bytes(path: str | os.PathLike) -> bytes:
    """The content of a file."""
    check_file(path, _MOST_BYTES)
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"The file {path} must exist and be readable. Received: {error.strerror}.") from None


def read_json(path: str | os.PathLike) -> Any:
    """The value in a JSON file."""
    return decode_json(read_text(path), path)


def decode_json(text: str, where: str | os.PathLike) -> Any:
    """The value of a JSON text; `where` is its place, for messages."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise InputError(f"{where} must be JSON. It is not: it is nested too deeply.") from None
    except ValueError as error:
        raise InputError(f"{where} must be JSON. It is not: {error}.") from None
    if ESCAPED_SURROGATE.search(text):
        _check_encodable(value, where)
    level, depth = [value], 0
    while level:
        if depth == _DEEPEST:
            raise InputError(f"{where} must be JSON of at most {_DEEPEST} levels. It has more.")
        level, depth = [part for each in level for part in _parts(each)], depth + 1
    return value


def _check_encodable(value: Any, where: str | os.PathLike) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise InputError(f"{where} must hold valid Unicode. It has half of a surrogate pair.") from None


def encodable(text: str) -> str:
    """Replaces lone surrogates (broken JSON escapes), which UTF-8 cannot encode, by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def read_json_object(path: str | os.PathLike) -> dict[str, Any]:
    """The object in a JSON file."""
    values = read_json(path)
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold one JSON object. It holds a {type(values).__name__}.")
    return values


def as_record(kind: type[T], value: Any, where: str | os.PathLike) -> T:
    """Converts a JSON value to a dataclass or another type, checked by its annotations; ignores unknown names.

    The type may be bounded: `Annotated[int, msgspec.Meta(ge=0)]`. `where` is the value's place, for messages.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}.") from None
    except UnicodeEncodeError:  # half a pair of surrogates
        raise InputError(f"{where} must hold text that is valid Unicode. It does not.") from None


def decode_json_lines(text: str, kind: type[T], where: str | os.PathLike) -> list[T]:
    """Converts each line of a JSON Lines text as `as_record` does; error messages name the line."""
    lines = text.removesuffix("\n").split("\n")  # not splitlines: JSON may contain U+2028
    places = (f"{where}, line {number}" for number in range(1, len(lines) + 1))
    return [
        as_record(kind, decode_json(line, place), place) for line, place in zip(lines, places, strict=True)
    ]


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Writes a value as indented JSON: a complete file, or nothing."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


@contextlib.contextmanager
def written_aside(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path beside `path` and renames it to `path` if the block succeeds."""
    check_local(path)
    path = Path(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a UTF-8 text file: a complete file, or nothing."""
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


def cache_folder() -> Path:
    """The folder of downloaded files: $ALBERT_TF_CACHE, or albert_tf in $XDG_CACHE_HOME or ~/.cache."""
    if folder := os.environ.get(CACHE):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "albert_tf")


def is_hidden(name: str | PurePath) -> bool:
    """Whether a file, or a folder that it lies in, begins with a dot, such as those in a clone's .git."""
    return any(part.startswith(".") for part in PurePath(name).parts)


def visible_files(folder: Path) -> list[Path]:
    """The files of a folder and its subfolders, sorted, without hidden ones."""
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and not is_hidden(path.relative_to(folder))
    )


def check_is_folder(flag: str, folder: Path) -> None:
    """Raises InputError if a flag names something that exists and is not a folder."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--{flag} must be a folder. Received {folder}, which is a file.")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Creates a folder, and removes it again if the block fails and leaves it empty."""
    check_local(folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):  # not empty: it holds work that a later run resumes
                path.rmdir()
        raise


@contextlib.contextmanager
def one_process_in(folder: Path) -> Iterator[None]:
    """Allows one process at a time into the block for a folder; the lock of a killed process is released.

    Windows cannot lock folders; processes do not wait there.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # NFS locks no folders
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
