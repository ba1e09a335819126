"""Processes that compute in turns, to compare libraries or models on the same machine state.

A turn is a line on a process' standard input, answered by a line of JSON on its standard output. `Peer.step` takes
a turn and stops the process (SIGSTOP) until the next; `request` and `reply` leave it running. All processes end
with this one, however it ends, unless it is killed.
"""

import atexit
import contextlib
import json
import os
import resource
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO


@dataclass
class Peer:
    """A process and the replies to its turns."""

    name: str
    process: subprocess.Popen
    log: str
    first_step_seconds: float = 0.0
    steps: list[dict] = field(default_factory=list)

    @classmethod
    def start(cls, name: str, command: list[str], logs: Path, request: str = "step") -> "Peer | None":
        """Starts a process and takes its first step; prints a line and returns None if that fails.

        Args:
          name: names the process and its log.
          command: starts a process that calls `serve_steps`.
          logs: the folder for its standard error, NAME.log.
          request: the line that requests the first step.
        """
        peer = cls.spawn(name, command, logs)
        return peer if peer.take_first_step(request) else None

    @classmethod
    def spawn(
        cls, name: str, command: list[str], logs: Path, environment: Mapping[str, str] | None = None
    ) -> "Peer":
        """Starts a process, which imports its libraries and waits for its first step.

        Arguments as in `start`; `environment` is added to this process' variables.
        """
        with (logs / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **(environment or {})},
            )
        peer = cls(name, process, log.name)
        atexit.register(peer.stop)  # a process that SIGSTOP has stopped would not notice that this one ends
        return peer

    def take_first_step(self, request: str = "step") -> bool:
        """Takes the first step; if that fails, prints a line, ends the process and returns False."""
        began = time.perf_counter()
        if not self.step(request):
            self.stop()
            print(f"{self.name} does not run here: see {self.log}", flush=True)
            return False
        self.first_step_seconds = time.perf_counter() - began
        return True

    def step(self, request: str = "step") -> bool:
        """Takes one step while other peers are stopped; returns False if the process has died."""
        self.process.send_signal(signal.SIGCONT)
        if not (self.request(request) and self.reply()):
            return False
        self.process.send_signal(signal.SIGSTOP)
        return True

    def request(self, request: str = "step") -> bool:
        """Requests a step of a process that is not stopped; returns False if it has died."""
        assert self.process.stdin
        try:
            self.process.stdin.write(f"{request}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def reply(self) -> bool:
        """Waits until the requested step is done; returns False if the process has died."""
        assert self.process.stdout
        reply = self.process.stdout.readline()
        if reply:
            self.steps.append(json.loads(reply))
        return bool(reply)

    def stop(self) -> None:
        """Ends the process."""
        self.process.kill()
        # Waits, and closes the pipes; a request that a dead process did not read cannot be sent any more.
        with contextlib.suppress(BrokenPipeError), self.process:
            pass

    def median(self, name: str) -> float:
        """The median over all steps of a number in the replies."""
        return statistics.median(step[name] for step in self.steps)


def await_replies(peers: Iterable[Peer]) -> bool:
    """Waits until all have taken the requested step; returns False as soon as one has died.

    The others may wait for the dead one and never reply.
    """
    waiting = {peer.process.stdout: peer for peer in peers if peer.process.stdout}
    while waiting:
        ready, _, _ = select.select(list(waiting), [], [])
        if not all(waiting.pop(pipe).reply() for pipe in ready):
            return False
    return True


def open_replies() -> TextIO:
    """Reserves standard output for replies; anything else printed goes to standard error."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return replies


def serve_steps(replies: TextIO, step: Callable[[str], dict]) -> None:
    """Takes a step for every line of standard input and replies with its time and memory.

    Args:
      replies: from `open_replies`.
      step: takes a step, given the line; returns further entries for the reply.
    """
    for line in sys.stdin:
        wall, user = time.perf_counter(), user_seconds()
        facts = step(line.strip())
        reply = {
            "seconds": time.perf_counter() - wall,
            "user_seconds": user_seconds() - user,
            "peak_megabytes": peak_megabytes(),
            **facts,
        }
        replies.write(json.dumps(reply) + "\n")


def peak_megabytes() -> float:
    """This process' peak resident memory; `ru_maxrss` would include the parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def user_seconds() -> float:
    """CPU time that this process has spent in user mode."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime
