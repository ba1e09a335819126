"""Runs tests against a mutant, in a process forked from one that has imported TensorFlow but not this package."""

import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import multiprocessing
import os
import sys
import time
from pathlib import Path

from tests.mutation.targets import ROOT

FORKS = multiprocessing.get_context("forkserver")
# Not hypothesis: pytest must be the first to import it.
FORKS.set_forkserver_preload(["tensorflow", "tensorflow_text", "pytest"])


def tests_pass(module: str, source: str, tests: tuple[str, ...], limit: float) -> tuple[bool | None, float]:
    """Runs the fast tests with this source in place of the module's.

    Returns:
      Whether they all pass, None if they were still running after `limit` seconds, and the seconds they took.
    """
    start = time.monotonic()
    process = FORKS.Process(target=_run, args=(module, source, tests))
    process.start()
    process.join(limit)
    seconds = time.monotonic() - start
    if process.exitcode is None:
        process.kill()
        process.join()
        return None, seconds
    return process.exitcode == 0, seconds


def _run(module: str, source: str, tests: tuple[str, ...]) -> None:
    import pytest

    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.chdir(ROOT)
    path = ROOT / module
    # AutoGraph compiles the lines that it finds here; an entry without a time of change is never read again.
    linecache.cache[str(path)] = (len(source), None, source.splitlines(keepends=True), str(path))
    sys.meta_path.insert(0, _Finder(module.removesuffix(".py").replace("/", "."), path, source))
    plugins = ("-p", "no:cacheprovider", "-p", "no:xdist")
    status = pytest.main(["-x", "-q", "-m", "not slow", *plugins, *tests])
    os._exit(int(status))


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
