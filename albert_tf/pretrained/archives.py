"""Archives unpacked only where nothing in them can do harm."""

import tarfile
from pathlib import Path

from albert_tf.errors import InputError

SUFFIXES = (".tar.gz", ".tgz", ".tar")
# Weights hardly compress; what grows more than this is made to fill a disk.
_MOST_GROWTH = 50
_ALWAYS_ALLOWED = 100 << 20  # bytes, for small archives of small models


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a tar archive, compressed or not, into an empty folder.

    Raises:
      InputError: the archive is damaged, holds links, devices or paths that lead out of the folder, or grows
        out of proportion; then nothing has been unpacked.
    """
    most = most_bytes(archive)
    try:
        with tarfile.open(archive) as tar:
            total, members = 0, []
            for member in tar:
                _check(member, archive)
                total += member.size
                if total > most:
                    raise InputError(
                        f"{archive} unpacks to more than {_MOST_GROWTH} times its size, which no checkpoint does."
                    )
                members.append(member)
            tar.extractall(folder, members, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InputError(f"{archive} is not a whole tar archive: {error}.") from None


def most_bytes(archive: Path) -> int:
    """What an archive may unpack to before it is taken for one that is made to fill a disk."""
    return max(_ALWAYS_ALLOWED, _MOST_GROWTH * archive.stat().st_size)


def _check(member: tarfile.TarInfo, archive: Path) -> None:
    path = Path(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise InputError(
            f"{archive} holds the path {member.name!r}, which leads out of it. Nothing was unpacked."
        )
    if not (member.isfile() or member.isdir()):
        raise InputError(f"{archive} holds {member.name!r}, a link or a device. Nothing was unpacked.")
