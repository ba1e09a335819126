"""Where `albert prepare` writes: a folder; for an address, one on this machine that is copied there at the end."""

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from data_prep.examples.manifest import MANIFEST, manifests_in
from data_prep.files import cache_folder
from data_prep.prepare.outputs import is_file_address, output_names


@dataclass(frozen=True)
class OutputFolder:
    """Where files are written, and where they are in the end.

    Attributes:
      name: the folder or its address, for messages.
      local: the folder of this machine that is written.
      work: the folder of unfinished work. Its name does not depend on --num_shards, so that a change is noticed.
      parts: the address where a cluster's workers leave parts; None if the output is on a disk that they share.
    """

    name: str
    local: Path
    work: Path
    parts: str | None = None

    @property
    def final(self) -> Path:
        """The folder, also if it is remote (`storage.paths`)."""
        return Path(self.name)

    def publish(self, shards: list[Path]) -> None:
        """Copies new shards and their manifest to a remote folder; until its end, no manifest lists the shards."""
        if not is_file_address(self.name):
            return
        from data_prep.storage.objects import join, remove, upload, write

        replaced = {path.name for path in shards}
        earlier = None
        for manifest in manifests_in(self.final):
            assert manifest.path
            if manifest.files & replaced:
                remove(join(self.name, manifest.path.name))
            elif manifest.path.name == MANIFEST:
                earlier = manifest
        for path in shards:
            upload(path, join(self.name, path.name))
        if earlier:
            write(join(self.name, earlier.name_when_earlier), earlier.to_json().encode())
        upload(self.local / MANIFEST, join(self.name, MANIFEST))


@contextlib.contextmanager
def output_folder(output_file: str) -> Iterator[OutputFolder]:
    """The folder of `--output_file`; no other process writes to an address during the block."""
    first = output_names(output_file, num_shards=1)[0]
    folder, _, name = first.rpartition("/")
    if not is_file_address(first):
        local = Path(first).parent
        yield OutputFolder(str(local), local, local.absolute() / f".{name}.scratch")
        return
    from data_prep.storage.locks import Lock

    scratch = cache_folder() / "prepare" / hashlib.sha256(output_file.encode()).hexdigest()[:24]
    scratch.mkdir(parents=True, exist_ok=True)
    with Lock(f"{folder}/.{name}"):  # other sets may be written to the folder meanwhile
        yield OutputFolder(folder, scratch / "files", scratch / "work", f"{folder}/.{name}/parts")
    _delete_if_finished(scratch)


def _delete_if_finished(scratch: Path) -> None:
    if (scratch / "work").exists():  # it can be resumed
        return
    for path in (scratch / "files").iterdir():
        path.unlink()
    (scratch / "files").rmdir()
    scratch.rmdir()
