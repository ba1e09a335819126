"""Where a run is kept: in its folder; or at an address of an object store, with a copy of it to work in."""

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from albert_tf.checkpoints.downloads import SCHEMES
from albert_tf.checkpoints.run_files import METRICS_FILE
from albert_tf.training.cluster import read_cluster
from albert_tf.training.device_flags import DeviceFlags
from albert_tf.training.devices import Devices, check_agreement
from data_prep.errors import Preempted
from data_prep.files import cache_folder, is_remote
from data_prep.storage.folders import ORDER, push, refresh
from data_prep.storage.locks import Lock
from data_prep.storage.paths import naming_address

# The best weights come before the log that says which they are, and a checkpoint's index after all else: a run
# that was killed while it pushed evaluates or trains again.
_ORDER = (*ORDER[:-1], f"*{METRICS_FILE}", ORDER[-1])


@dataclass(frozen=True)
class RunPlace:
    """Where a run is kept. Without an address, its methods do nothing.

    Attributes:
      folder: where this process works.
      address: where the run is kept; None if that is the folder.
      lock: that on the address, in the one process that writes there.
    """

    folder: Path
    address: str | None = None
    lock: Lock | None = None

    def push(self) -> None:
        """Copies what has changed in the folder to the address, if this process writes there.

        Raises:
          InputError: another process took the lock, or the store does not answer. The folder stays as it is.
        """
        if self.address and self.lock:
            self.lock.check()
            push(self.folder, self.address, _ORDER)

    def share(self, devices: Devices) -> None:
        """Shows all workers what the chief has written. All must call this together."""
        if not (self.address and devices.processes > 1):
            return
        self.push()
        check_agreement(devices, 0, "")  # waits for the chief
        if not self.lock:
            refresh(self.folder, self.address, _ORDER)

    def named(self, line: str) -> str:
        """A line that names the address in the place of the folder."""
        return line.replace(str(self.folder), self.address) if self.address else line


@contextlib.contextmanager
def run_place(output_dir: str, flags: DeviceFlags) -> Iterator[RunPlace]:
    """The place of a run. If it is an address, its files are copied here first, and in the end back there.

    Args:
      output_dir: a folder or an address.
      flags: tell which process is the chief, before TensorFlow starts.

    Raises:
      InputError: another process uses the address, or the store refuses or does not answer.
    """
    folder = working_folder(output_dir, flags)
    if not _is_address(output_dir):
        yield RunPlace(folder)
        return
    address = output_dir.rstrip("/")
    with contextlib.ExitStack() as stack:
        stack.enter_context(naming_address(folder, address))
        lock = None if _as_worker(flags) else stack.enter_context(Lock(address))
        refresh(folder, address, _ORDER)
        place = RunPlace(folder, address, lock)
        try:
            yield place
        except Preempted:
            place.push()
            raise
        place.push()


def working_folder(output_dir: str, flags: DeviceFlags) -> Path:
    """The folder of a run; for an address, the one in the cache in which this process works.

    It stays there, so that the same command copies little. Only the chief's is pushed; other workers have their
    own.
    """
    if not _is_address(output_dir):
        return Path(output_dir)
    address = output_dir.rstrip("/")
    key = hashlib.sha256(f"{address} {_as_worker(flags)}".encode()).hexdigest()[:12]
    return cache_folder() / "runs" / f"{address.rpartition('/')[2]}-{key}"


def _is_address(output_dir: str) -> bool:
    """Whether a run can be kept there in an object store. Others with a scheme are refused like a bad folder."""
    scheme, separator, _ = output_dir.partition("://")
    return is_remote(output_dir) and bool(separator) and scheme not in SCHEMES


def _as_worker(flags: DeviceFlags) -> str:
    """What distinguishes this process if it is a worker that is not the chief; empty otherwise."""
    if flags.uses_jax:
        import jax

        return str(jax.process_index() or "")
    cluster = read_cluster() if flags.strategy in ("auto", "multi_worker") and not flags.tpu else None
    if cluster is None:
        return ""
    chief = (cluster.jobs.get("chief") or cluster.jobs["worker"])[0]
    return "" if cluster.address == chief else cluster.address
