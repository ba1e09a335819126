"""Libraries that compute in turns, each in a process of its own that is stopped (SIGSTOP) except for its turn.

A turn is one line to the process' standard input and one line of JSON from its standard output; nothing else is
computed meanwhile.
"""

import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Peer:
    """A library's process and what it has measured."""

    name: str
    process: subprocess.Popen
    first_step_seconds: float = 0.0
    steps: list[dict] = field(default_factory=list)

    @classmethod
    def start(cls, name: str, command: list[str], logs: Path, request: str = "step") -> "Peer | None":
        """Takes the first step; None, with a line that says so, where the library does not run.

        Args:
          name: of the library.
          command: starts its process, which calls `answer`.
          logs: the folder for what it writes to its standard error.
          request: the first step's.
        """
        began = time.perf_counter()
        with (logs / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        peer = cls(name, process)
        if not peer.step(request):
            peer.stop()
            print(f"{name} does not run here: see {log.name}", flush=True)
            return None
        peer.first_step_seconds = time.perf_counter() - began
        return peer

    def step(self, request: str = "step") -> bool:
        """One step, nothing else running; False where the process has died."""
        assert self.process.stdin and self.process.stdout
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(f"{request}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        reply = self.process.stdout.readline()
        if not reply:
            return False
        self.process.send_signal(signal.SIGSTOP)
        self.steps.append(json.loads(reply))
        return True

    def stop(self) -> None:
        self.process.kill()
        with self.process:  # waits, and closes the pipes
            pass

    def median(self, name: str) -> float:
        return statistics.median(step[name] for step in self.steps)


def replies_to():
    """The process' standard output, for replies alone: what libraries print goes to standard error."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return replies


def answer(replies, step: Callable[[str], dict]) -> None:
    """Takes a step for every line of standard input, and adds to its reply what it took.

    Args:
      replies: of `replies_to`.
      step: from the line to what is in the reply besides.
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
    """Peak of this process' resident memory; `ru_maxrss` would count what the parent had, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def user_seconds() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def processor() -> dict:
    """Its name and which of the instructions for bfloat16 products it has."""
    lines = Path("/proc/cpuinfo").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    values = {name.strip(): value.strip() for name, value in fields.items()}
    instructions = sorted({"avx512_bf16", "amx_bf16"} & set(values.get("flags", "").split()))
    return {"cpu": values.get("model name", "unknown"), "bfloat16_instructions": instructions}
