"""Tar archives, unpacked only if nothing in them can do harm."""

import gzip
import shutil
import tarfile
from pathlib import Path
from typing import BinaryIO, cast

from data_prep.errors import InputError
from data_prep.files import refuse_damage

SUFFIXES = (".tar.gz", ".tgz", ".tar")
# Weights hardly compress; an archive that grows more than this is an attempt to fill the disk.
_MOST_GROWTH = 50
_ALWAYS_ALLOWED = 100 << 20  # bytes, for small archives of small models
_MOST_MEMBERS = 10_000  # files and folders; a checkpoint has ten
_MOST_LEVELS = 20  # of folders in folders; a SavedModel has 3
_MOST_AT_ONCE = 16 << 20  # bytes; files are copied in small portions, and names are short
_GZIP = b"\x1f\x8b"


class _SmallReads:
    """A file that refuses large reads: tarfile trusts the length that a long name's header claims."""

    def __init__(self, file: BinaryIO, archive: Path):
        self._file, self._archive = file, archive
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        if size > _MOST_AT_ONCE:
            raise InputError(f"{self._archive} holds a name of {size:,} bytes. Nothing was unpacked.")
        return self._file.read(size)


def unpack(archive: Path, folder: Path) -> Path:
    """Unpacks a tar archive, compressed or not, into an empty folder.

    Returns:
      The folder of the files: archives hold one folder, or the files themselves.

    Raises:
      InputError: the archive is damaged or the disk is full. Before anything is unpacked: the archive holds links,
        devices or paths that lead out of the folder, or grows out of proportion.
    """
    limit = max_unpacked_bytes(archive)
    with (
        refuse_damage(archive, "a complete tar archive"),
        _decompressed(archive) as file,
        tarfile.open(fileobj=cast(BinaryIO, _SmallReads(file, archive)), mode="r:") as tar,
    ):
        total, made, members = 0, 0, []
        for member in tar:
            _check(member, archive)
            total += abs(member.size)  # a damaged one may be negative
            if total > limit:
                raise InputError(
                    f"{archive} unpacks to more than {_MOST_GROWTH} times its size, which no checkpoint does."
                )
            members.append(member)
            made += len(Path(member.name).parts)  # counts its parent folders, too
            if made > _MOST_MEMBERS:
                raise InputError(
                    f"{archive} holds more than {_MOST_MEMBERS:,} files and folders, which no checkpoint does. "
                    "Nothing was unpacked."
                )
        for member in members:
            _extract(tar, member, folder)
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Writes a file or folder of an archive, without its owner and mode.

    `TarFile.extract` has no filter for these before Python 3.11.4; Debian 12 has 3.11.2.
    """
    path = folder / member.name
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with cast(BinaryIO, tar.extractfile(member)) as source, path.open("wb") as file:
        shutil.copyfileobj(source, file)


def _decompressed(archive: Path) -> BinaryIO:
    with archive.open("rb") as file:
        is_gzip = file.read(len(_GZIP)) == _GZIP
    return cast(BinaryIO, gzip.open(archive) if is_gzip else archive.open("rb"))


def max_unpacked_bytes(archive: Path) -> int:
    """The number of bytes that an archive may unpack to; a larger one is an attempt to fill the disk."""
    return max(_ALWAYS_ALLOWED, _MOST_GROWTH * archive.stat().st_size)


def _check(member: tarfile.TarInfo, archive: Path) -> None:
    path = Path(member.name)
    if path.anchor or ".." in path.parts:
        raise InputError(
            f"{archive} holds the path {member.name!r}, which leads out of it. Nothing was unpacked."
        )
    if len(path.parts) > _MOST_LEVELS:
        raise InputError(
            f"{archive} holds a path of {len(path.parts)} levels, which no checkpoint has. Nothing was unpacked."
        )
    if not (member.isfile() or member.isdir()):
        raise InputError(f"{archive} holds {member.name!r}, a link or a device. Nothing was unpacked.")
