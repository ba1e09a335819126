"""`albert prepare --cluster=dask://HOST:PORT`: jobs on the workers of a Dask cluster.

All workers see the vocabulary and the output under the same absolute paths, on a shared disk, or at
addresses. Dask runs a job again if its worker is lost; the result is the same, because a job
writes its files aside and renames or uploads them.
"""

import itertools
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from data_prep.errors import InputError, first_line, needs_extra
from data_prep.examples.manifest import package_versions

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")

_SECONDS_TO_CONNECT = 30
_SECONDS_FOR_WORKERS = 60


class DaskWorkers:
    """The workers of a Dask cluster, with the interface of `workers.Workers`.

    Args:
      address: "dask://HOST:PORT" of the scheduler.
      folder: a folder that all workers must see; None if they need none.
    """

    def __init__(self, address: str, folder: Path | None):
        self._address, self._folder = address, folder

    def __enter__(self) -> "DaskWorkers":
        with needs_extra("--cluster=dask://...", "distributed", "dask"):
            import distributed
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # its tracebacks; errors are raised here
        try:
            self._client = distributed.Client(
                self._address.replace("dask://", "tcp://", 1),
                timeout=_SECONDS_TO_CONNECT,
                set_as_default=False,
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(
                f"--cluster must be the address of a running Dask scheduler. {self._address} does not answer "
                f"({first_line(error)}); start one with `dask scheduler`, and workers with `dask worker`."
            ) from None
        try:
            self._check_workers()
        except BaseException:
            self._client.close()
            raise
        return self

    def __exit__(self, *exception) -> None:
        self._client.close()  # cancels the jobs that wait

    def run(self, function: Callable[[_Job], _Result], jobs: Iterable[_Job]) -> Iterator[_Result]:
        """Runs the jobs, of which it takes no more than two per thread of the cluster; yields results in order."""
        from distributed import CancelledError, KilledWorker

        under_way: deque[Any] = deque()
        jobs = iter(jobs)
        try:
            while True:
                for job in itertools.islice(jobs, max(0, self._most_jobs() - len(under_way))):
                    under_way.append(self._client.submit(function, job, pure=False))
                if not under_way:
                    return
                yield under_way.popleft().result()
        except KilledWorker:
            raise InputError(
                "Workers must run until their work is done. Several ended during the same job, perhaps for "
                "lack of memory: give each worker more, and run the same command again."
            ) from None
        except (CancelledError, OSError, TimeoutError):
            raise InputError(
                f"The scheduler at {self._address} must run until the work is done. It ended, or does not answer "
                "any more; run the same command again when it does."
            ) from None

    def _most_jobs(self) -> int:
        """Workers may come and go while the jobs run."""
        return 2 * max(1, sum(self._client.nthreads().values()))

    def _check_workers(self) -> None:
        """Raises InputError if there are no workers, or if they would write other bytes or elsewhere."""
        try:
            self._client.wait_for_workers(1, timeout=_SECONDS_FOR_WORKERS)
        except TimeoutError:
            raise InputError(
                f"A Dask cluster needs workers. The scheduler at {self._address} has had none for "
                f"{_SECONDS_FOR_WORKERS} seconds; start some with `dask worker`."
            ) from None
        ours = package_versions()
        try:
            versions = self._client.run(package_versions)
        except Exception as error:  # whatever the worker raises, such as ModuleNotFoundError
            raise InputError(
                f"All workers of a Dask cluster must have albert-tf installed. One has not: {first_line(error)}."
            ) from None
        seen = self._client.run(os.path.isdir, str(self._folder)) if self._folder else {}
        for worker, sees_folder in seen.items():
            if not sees_folder:
                raise InputError(
                    f"All workers of a Dask cluster must see the output's folder. {worker} has no {self._folder}; "
                    "name an --output_file on a disk that they share, or at an address such as s3://bucket/name."
                )
        for worker, theirs in versions.items():
            if theirs != ours:
                raise InputError(
                    "All workers of a Dask cluster must have the packages of this process, or the bytes would "
                    f"depend on them. {worker} has {theirs}, not {ours}."
                )
