"""Runs tests against a mutant, in a process forked from one that has imported other packages but not this one."""

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import multiprocessing
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tests.mutation.targets import ROOT

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "tensorflow",
        "tensorflow_text",
        "pytest",
        "pytest_timeout",
        "hypothesis",
        "sentencepiece",
        "sklearn.metrics",
    ]
)

_LONGEST = 1800  # seconds on the clock, for tests that wait and so use no processor time
_MOST_MEMORY = 8 << 30  # bytes


@dataclass(frozen=True)
class Trial:
    """What the tests of a module make of a source.

    Attributes:
      passed: whether all pass; None if the process ended without saying so: too much time, or a crash.
      seconds: processor time.
      durations: seconds of each test, by its name.
    """

    passed: bool | None
    seconds: float
    durations: Mapping[str, float]


def try_source(
    module: str, source: str, tests: tuple[str, ...], limit: float, durations: Mapping[str, float]
) -> Trial:
    """Runs the fast tests with this source in place of the module's, until one fails.

    Args:
      module: path of the module.
      source: what the module contains instead.
      tests: paths of the test files.
      limit: seconds of processor time, which don't depend on what else the machine does.
      durations: the known durations of tests. The shortest run first: one that fails is enough.
    """
    receiver, sender = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_run, args=(module, source, tests, limit, durations, sender))
    process.start()
    sender.close()
    try:
        answer = receiver.recv() if receiver.poll(_LONGEST) else None
    except EOFError:
        answer = None
    process.kill()
    process.join()
    return Trial(*answer) if answer else Trial(None, limit, {})


def _run(
    module: str,
    source: str,
    tests: tuple[str, ...],
    limit: float,
    durations: Mapping[str, float],
    sender: Connection,
) -> None:
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (round(limit), round(limit)))
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.chdir(ROOT)
    gc.freeze()  # pytest collects garbage at its end; TensorFlow's million objects need not be visited
    path = ROOT / module
    # AutoGraph compiles the lines that it finds here; an entry without a time of change is never read again.
    linecache.cache[str(path)] = (len(source), None, source.splitlines(keepends=True), str(path))
    sys.meta_path.insert(0, _Finder(module.removesuffix(".py").replace("/", "."), path, source))
    # Nobody reads why an assertion fails, and pytest would rewrite all of hypothesis to tell.
    options = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]
    stopwatch = _ShortestFirst(durations)
    status = pytest.main([*options, "-m", "not very_slow", *tests], plugins=[stopwatch])
    sender.send((status == 0, time.process_time(), dict(stopwatch.measured)))
    os._exit(0)


class _ShortestFirst:
    """A plugin of pytest that measures the tests, and sorts them by their known durations."""

    def __init__(self, durations: Mapping[str, float]):
        self.durations = durations
        self.measured: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items):
        items.sort(key=lambda item: self.durations.get(item.nodeid, 0.0))

    def pytest_runtest_logreport(self, report):
        self.measured[report.nodeid] += report.duration


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the mutated module before the files are searched."""

    def __init__(self, name: str, path: Path, source: str):
        self.name, self.path, self.source = name, path, source

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(
            name, self.path, loader=_Loader(name, str(self.path), self.source)
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str):
        super().__init__(name, path)
        self.source = source

    def get_data(self, path):
        return self.source.encode() if path == self.path else super().get_data(path)

    def path_stats(self, path):
        raise OSError("the mutant is not the file: compiled code of the file must not be used")
