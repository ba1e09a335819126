"""One process at a time works at an address, on whatever machine it runs.

A lock is a small file, ADDRESS/.lock/GENERATION.json, that is created only if it does not exist. It names the
holder and is written again every few seconds. If that ends, the next process creates the next generation.
"""

import contextlib
import os
import socket
import sys
import threading
import time
import uuid
from pathlib import Path

import msgspec

from data_prep.errors import InputError
from data_prep.storage.access import MissingFileError
from data_prep.storage.objects import create, files_below, join, read, remove, write

BEAT = 20.0  # seconds between heartbeats
STALE = 120.0  # seconds without one, after which the holder counts as dead


class _Holder(msgspec.Struct):
    host: str = "an unknown host"
    process: int = 0
    machine: str = ""  # the kernel's process numbers, which two containers do not share
    id: str = ""
    beat: float = 0.0  # seconds since 1970, by the holder's clock


class Lock:
    """Keeps other processes away from an address for the duration of a block.

    A holder that was killed is replaced at once on the same machine (Linux), and `STALE` seconds after its last
    heartbeat elsewhere. Before that, a process watches for two heartbeats, as clocks of machines differ.

    >>> with Lock("gs://bucket/run") as held:
    ...     held.check()  # before each push
    """

    def __init__(self, url: str, beat: float = BEAT, stale: float = STALE):
        self._url, self._folder = url, join(url, ".lock")
        self._beat, self._stale = beat, stale
        self._me = _Holder(socket.gethostname(), os.getpid(), _machine(), uuid.uuid4().hex)
        self._name, self._lost = "", ""
        self._ended = threading.Event()
        self._turn = threading.Lock()  # a lock that is lost is not written again
        self._thread = threading.Thread(target=self._renew, daemon=True, name=f"lock of {url}")

    def __enter__(self) -> "Lock":
        """Takes the lock.

        Raises:
          InputError: another process holds it.
        """
        before = self._read()
        for name, holder in before.items():
            if not self._is_dead(name, holder):
                raise self._taken(holder)
        self._name = f"{max((_generation(name) for name in before), default=0) + 1:06d}.json"
        if not create(join(self._folder, self._name), self._content()):
            raise self._taken(self._read().get(self._name, _Holder()))
        for name, holder in self._read().items():
            # Of two processes that saw different files before, the second one sees the first one here.
            if name != self._name and holder.id != before.get(name, self._me).id:
                remove(join(self._folder, self._name))
                raise self._taken(holder)
        for name in before:
            remove(join(self._folder, name))
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Releases the lock. During an outage its file stays, and counts as stale later."""
        self._ended.set()
        self._thread.join()
        if not self._lost:
            with contextlib.suppress(InputError):
                remove(join(self._folder, self._name))

    def check(self) -> None:
        """Raises InputError if another process took the lock, after a pause or an outage of this one."""
        if (
            not self._lost and time.time() - self._me.beat > 2 * self._beat
        ):  # the thread has not looked either
            with self._turn:
                self._look()
        if self._lost:
            raise InputError(
                f"One process at a time may use {self._url}. It was taken over by {self._lost}, after this "
                f"process did not renew its lock for {self._stale:.0f} seconds."
            )

    def _renew(self) -> None:
        while not self._ended.wait(self._beat):
            with self._turn, contextlib.suppress(InputError):  # an outage, which the next push reports
                if self._look():
                    return
                write(join(self._folder, self._name), self._content())

    def _look(self) -> bool:
        """Whether another process has taken the lock."""
        later = {n: h for n, h in self._read().items() if _generation(n) > _generation(self._name)}
        if later:
            self._lost = _words(later[max(later)])
            remove(join(self._folder, self._name))
        return bool(later)

    def _is_dead(self, name: str, holder: _Holder) -> bool:
        if holder.machine and holder.machine == self._me.machine:
            return not Path(f"/proc/{holder.process}").exists()
        if time.time() - holder.beat <= self._stale:
            return False
        ended = time.monotonic() + 2 * self._beat
        while time.monotonic() < ended:
            time.sleep(self._beat / 4)
            if self._read().get(name, holder).beat != holder.beat:
                return False
        return True

    def _taken(self, holder: _Holder) -> InputError:
        return InputError(
            f"One process at a time may use {self._url}. It is in use by {_words(holder)}; wait until it has "
            f"ended (a killed one is replaced after {self._stale:.0f} seconds), or use another address."
        )

    def _content(self) -> bytes:
        self._me.beat = time.time()
        return msgspec.json.encode(self._me)

    def _read(self) -> dict[str, _Holder]:
        """The locks there by the name of their file."""
        found = {}
        for name in files_below(self._folder):
            with contextlib.suppress(MissingFileError):  # released meanwhile
                try:
                    found[name] = msgspec.json.decode(read(join(self._folder, name)), type=_Holder)
                except (msgspec.DecodeError, UnicodeDecodeError):  # not written by this library
                    found[name] = _Holder()
        return found


def _generation(name: str) -> int:
    number = name.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _words(holder: _Holder) -> str:
    return f"process {holder.process} on {holder.host}"


def _machine() -> str:
    """Tells this kernel's process numbers from those of other kernels and containers; empty if unknown."""
    if sys.platform != "linux":
        return ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
