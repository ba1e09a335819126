"""Parts whose makers share no disk with this machine: they pass through the object store of the output.

worker: Part --upload--> STORE/NUMBER.records .index .json --download--> this machine, which merges the parts
"""

import contextlib
import dataclasses
import functools
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_prep.errors import InputError
from data_prep.prepare.parts import Part
from data_prep.prepare.workers import Workers
from data_prep.storage.objects import download, files_below, join, remove, upload

if TYPE_CHECKING:
    from data_prep.prepare.dask_workers import DaskWorkers


def run_through_store(
    workers: "Workers | DaskWorkers", make: Callable[[Any], Counter], jobs: Iterable[Any], url: str
) -> Iterator[Counter]:
    """Like `workers.run(make, jobs)`, in another order; the parts arrive in their folders on this machine.

    Args:
      workers: any that can reach the store.
      make: makes the part of a job, or only compares the text if there is the part already.
      jobs: dataclasses with a `part`.
      url: a folder of the store, for this alone; it is empty in the end, and after an error.

    Raises:
      InputError: that of a worker; or the store does not answer.
    """
    finished: list[Counter] = []
    under_way: deque[Part] = deque()

    def unfinished() -> Iterator[Any]:
        for job in jobs:
            if job.part.summary():  # here, from an earlier run
                finished.append(make(job))
            else:
                under_way.append(job.part)
                yield job

    try:
        for counts in workers.run(functools.partial(_make_and_upload, make, url), unfinished()):
            for path in under_way.popleft().files:
                download(join(url, path.name), path)
                remove(join(url, path.name))
            yield counts
    except InputError:
        with contextlib.suppress(InputError):
            _remove_all(url)
        raise
    _remove_all(url)  # also parts that were made twice, or for a run that was killed
    yield from finished


def uploaded(path: Path, url: str) -> Path:
    """The path of a copy, among the parts, of a file that all workers read."""
    address = join(url, path.name)
    upload(path, address)
    return Path(address)


def _make_and_upload(make: Callable[[Any], Counter], url: str, job: Any) -> Counter:
    """Runs on a worker."""
    with tempfile.TemporaryDirectory(prefix="albert_") as folder:
        part = Part(Path(folder), job.part.number)
        counts = make(dataclasses.replace(job, part=part))
        for path in part.files:
            upload(path, join(url, path.name))
    return counts


def _remove_all(url: str) -> None:
    for name in files_below(url):
        remove(join(url, name))
