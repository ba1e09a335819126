"""Processes that experiments and benchmarks start: programs one after the other, and peers that compute in turns.

A peer is a library, or a model, in a process of its own. A turn is a line of JSON on its standard input, answered
by a line of JSON on its standard output. Between its turns the process is stopped (SIGSTOP). All processes
end with this one, however it ends, unless it is killed.

`python -m benchmarks.processes TARGET ARGUMENTS` is such a process. TARGET names a function, such as
benchmarks.libraries.hugging_face:training, and ARGUMENTS are its arguments as JSON; the function that it returns
takes the turns.
"""

import atexit
import contextlib
import importlib
import json
import os
import resource
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from data_prep.signals import signal_handler

_LONGEST_LINE = 300


def albert(command: str, *words: str | Path, **flags: Any) -> None:
    """Runs an `albert` command, as `run` does; a flag of None is left out, one of a list is repeated."""
    given = [
        f"--{name}={value}"
        for name, values in flags.items()
        for value in (values if isinstance(values, list | tuple) else [values])
        if value is not None
    ]
    run("albert_cli.cli", command, *map(str, words), *given, shown="albert")


def run(module: str, *words: str, shown: str = "") -> None:
    """Runs a program in its own process; if it fails, its exit status ends this one.

    A crash then costs one run, and this process needs no TensorFlow, which would occupy the GPUs. SIGTERM and
    Ctrl-C are passed on, so that a training saves its state.

    Args:
      module: the program, for `python -m`.
      *words: its command line.
      shown: what to print in place of `python -m MODULE`.
    """
    from data_prep.console import NO_SUGGESTIONS  # imports rich, which a library's environment may lack

    line = f"$ {shown or f'python -m {module}'} {shlex.join(words)}"
    print(line if len(line) < _LONGEST_LINE else f"{line[:_LONGEST_LINE]}...", file=sys.stderr, flush=True)
    running: list[subprocess.Popen] = []

    def pass_on(number: int, _) -> None:
        for process in running:
            process.send_signal(number)

    with signal_handler(pass_on, signal.SIGTERM, signal.SIGINT):
        # In its own session, because a terminal would otherwise send it Ctrl-C as well.
        environment = {**os.environ, NO_SUGGESTIONS: "1"}
        command = [sys.executable, "-m", module, *words]
        running.append(subprocess.Popen(command, env=environment, start_new_session=True))
        status = running[0].wait()
    if status:
        raise SystemExit(status if status > 0 else 128 - status)


class Peer:
    """A process that computes in turns.

    Attributes:
      name: names the process and its log.
      log: the file with its standard error.
      replies: the replies to its turns.
      first_turn_seconds: from the start of the process to its first reply.
    """

    def __init__(
        self,
        name: str,
        target: str,
        arguments: Mapping[str, Any],
        logs: Path,
        python: str = sys.executable,
        variables: Mapping[str, str] | None = None,
    ):
        """Starts the process.

        Args:
          name: names the process and its log.
          target: MODULE:FUNCTION.
          arguments: the function's arguments, which JSON must be able to represent.
          logs: the folder for its standard error, NAME.log.
          python: the interpreter.
          variables: added to this process' environment variables.
        """
        self.name, self.log = name, logs / f"{name}.log"
        self.replies: list[dict[str, Any]] = []
        self.first_turn_seconds = 0.0
        command = [python, "-m", "benchmarks.processes", target, json.dumps(arguments)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **(variables or {})},
            )
        atexit.register(self.stop)  # a process that SIGSTOP has stopped would not notice that this one ends

    def first_turn(self, **request: Any) -> bool:
        """Takes the first turn, after a start just now; if that fails, prints a line and returns False."""
        began = time.perf_counter()
        if not self.turn(**request):
            self.stop()
            print(f"{self.name} does not run here: see {self.log}", flush=True)
            return False
        self.first_turn_seconds = time.perf_counter() - began
        return True

    def turn(self, **request: Any) -> bool:
        """Takes a turn while other peers are stopped; returns False if the process has died."""
        self.process.send_signal(signal.SIGCONT)
        if not (self.ask(**request) and self.answer()):
            return False
        self.process.send_signal(signal.SIGSTOP)
        return True

    def ask(self, **request: Any) -> bool:
        """Requests a turn of a process that is not stopped; returns False if it has died."""
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def answer(self) -> bool:
        """Waits until the requested turn is done; returns False if the process has died."""
        assert self.process.stdout
        reply = self.process.stdout.readline()
        if reply:
            self.replies.append(json.loads(reply))
        return bool(reply)

    def stop(self) -> None:
        """Ends the process."""
        self.process.kill()
        # Waits, and closes the pipes; a request that a dead process did not read cannot be sent any more.
        with contextlib.suppress(BrokenPipeError), self.process:
            pass


def take_turns(peers: list[Peer], requests: Iterable[Mapping[str, Any]]) -> list[Peer]:
    """Makes all peers take a turn for each request, one after the other; returns those that still run."""
    for request in requests:
        peers = [peer for peer in peers if peer.turn(**request)]
    return peers


def turn_together(peers: list[Peer]) -> bool:
    """Makes all peers take a turn at the same time; returns False as soon as one has died.

    The others may wait for the dead one and never reply.
    """
    if not all(peer.ask() for peer in peers):
        return False
    waiting = {peer.process.stdout: peer for peer in peers if peer.process.stdout}
    while waiting:
        ready, _, _ = select.select(list(waiting), [], [])
        if not all(waiting.pop(pipe).answer() for pipe in ready):
            return False
    return True


def serve(target: str, arguments: Mapping[str, Any]) -> None:
    """Takes a turn for every line of standard input and replies with its time, its memory and what it returns."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # anything else that is printed goes to standard error
    module, _, function = target.partition(":")
    began = time.perf_counter()
    turn = getattr(importlib.import_module(module), function)(**arguments)
    load_seconds = time.perf_counter() - began
    for line in sys.stdin:
        wall, user = time.perf_counter(), user_seconds()
        facts = turn(**json.loads(line))
        reply = {
            "seconds": time.perf_counter() - wall,
            "user_seconds": user_seconds() - user,
            "peak_megabytes": peak_megabytes(),
            "load_seconds": load_seconds,
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


if __name__ == "__main__":
    serve(sys.argv[1], json.loads(sys.argv[2]))
