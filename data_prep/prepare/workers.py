"""Jobs on several processes: results in order, few jobs in memory, and an error if a process is killed."""

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from data_prep.errors import InputError

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


class Workers:
    """Worker processes, which start with the first job and end with the `with` block.

    One worker, or a single job, runs in this process.

    >>> with Workers(2) as workers:
    ...     list(workers.run(abs, [-1, 2, -3]))
    [1, 2, 3]
    """

    def __init__(self, number: int):
        self._number = number
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception) -> None:
        if not self._pool:
            return
        if kind and not issubclass(kind, Exception):
            # Ctrl-C and SIGTERM do not wait for running jobs. (Python 3.14 has `kill_workers` for this.)
            for process in list(self._pool._processes.values()):
                process.kill()
        # Otherwise running jobs finish: the next run uses what they write.
        self._pool.shutdown(cancel_futures=True)

    def run(self, function: Callable[[_Job], _Result], jobs: Iterable[_Job]) -> Iterator[_Result]:
        """Runs the jobs, of which it takes no more than two per worker at a time; yields their results in order.

        Processes find the function by its name, and receive jobs pickled. Its exceptions are raised unchanged.
        """
        jobs = iter(jobs)
        first_two = list(itertools.islice(jobs, 2))
        jobs = itertools.chain(first_two, jobs)
        if self._number == 1 or len(first_two) < 2:
            yield from map(function, jobs)
            return
        if not self._pool:
            # Forked processes would inherit locks held by threads of TensorFlow or of the progress bar.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._number, mp_context=context, initializer=_end_with_parent)
        try:
            under_way: deque[Future[_Result]] = deque()
            for job in jobs:
                with _interrupt_waits():
                    under_way.append(self._pool.submit(function, job))
                if len(under_way) == 2 * self._number:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        except BrokenProcessPool:
            raise InputError(
                "All worker processes must run until their work is done. One ended early, perhaps for lack of "
                f"memory: run the same command again, with --workers below {self._number} if memory is short. (A "
                'script that calls `prepare` must do so under `if __name__ == "__main__":`.)'
            ) from None


@contextlib.contextmanager
def _interrupt_waits() -> Iterator[None]:
    """Ctrl-C waits for the end of the block, and never reaches processes that start in it, which inherit this."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """Leaves Ctrl-C to the parent, and exits with it: a worker would wait for jobs forever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_after_parent, daemon=True).start()


def _exit_after_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
