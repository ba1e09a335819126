"""What the benchmarks beside other libraries share: their flags, and the start of the libraries' processes."""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.processes import Peer, take_turns
from benchmarks.report import OURS, describe_machine
from data_prep.errors import InputError, check_among
from data_prep.files import write_json


@dataclass(frozen=True)
class Library:
    """A process to measure.

    Attributes:
      target: MODULE:FUNCTION in benchmarks/libraries.
      options: arguments of the function beside those that all libraries have.
      is_other: whether it is another library, which ours is compared with.
    """

    target: str
    options: Mapping[str, Any] = field(default_factory=dict)
    is_other: bool = False


@dataclass(frozen=True, kw_only=True)
class PeerSettings:
    """What is measured, and where.

    Attributes:
      peers: libraries to measure.
      dtypes: precisions to measure.
      python: NAME=PATH of the interpreter for a library that needs its own environment.
      logs: folder for the libraries' output.
      output: JSON file to write the results to.
    """

    peers: tuple[str, ...]
    dtypes: tuple[Literal["bfloat16", "float32"], ...] = ("bfloat16", "float32")
    python: tuple[str, ...] = ()
    logs: Path = Path("benchmark_logs")
    output: Path | None = None

    def __init_subclass__(cls) -> None:
        """Appends the attributes above to a subclass's docstring, from which --help takes the descriptions."""
        _, shared = (PeerSettings.__doc__ or "").split("Attributes:\n")
        cls.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n{shared}"

    def check_peers(self, known: Collection[str]) -> None:
        """Raises InputError for an unknown library, or if albert_tf is missing."""
        check_among(known, "peers", self.peers)
        if wrong := [value for value in self.python if "=" not in value]:
            raise InputError(
                f"--python must be NAME=PATH, such as hugging_face=env/bin/python. Received {wrong[0]}."
            )
        if OURS not in self.peers:
            raise InputError(f"--peers must name {OURS}, which the others are compared with.")

    def start(
        self,
        libraries: Mapping[str, Library],
        arguments: Mapping[str, Any],
        request: Mapping[str, Any],
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> list[Peer]:
        """Starts the libraries one after the other; returns those that have taken a first turn.

        Args:
          libraries: name -> how to start it.
          arguments: of all libraries.
          request: the first turn.
          options: name -> further arguments.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        interpreters = dict(value.split("=", 1) for value in self.python)
        peers = []
        for name, library in libraries.items():
            values = {**arguments, **library.options, **(options or {}).get(name, {})}
            target, python = f"benchmarks.libraries.{library.target}", interpreters.get(name, sys.executable)
            peer = Peer(name, target, values, self.logs, python)
            if peer.first_turn(**request):
                peers.append(peer)
        return peers

    def measure(
        self,
        libraries: Mapping[str, Library],
        arguments: Mapping[str, Any],
        warm_up: Sequence[Mapping[str, Any]],
        turns: Sequence[Mapping[str, Any]],
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> list[Peer]:
        """Starts the libraries as `start` does, ends them, and returns those that have taken all turns.

        Args:
          libraries: name -> how to start it.
          arguments: of all libraries.
          warm_up: turns that do not count, in which a library may compile and allocate.
          turns: the others.
          options: name -> further arguments.
        """
        peers = take_turns(self.start(libraries, arguments, warm_up[0], options), warm_up[1:])
        for peer in peers:
            peer.replies.clear()
        peers = take_turns(peers, turns)
        for peer in peers:
            peer.stop()
        return peers

    def report(self) -> dict[str, Any]:
        """A report without runs, which describes the machine."""
        return {**describe_machine(), "runs": []}

    def write(self, report: Mapping[str, Any]) -> None:
        """Writes the report to `output`, if given."""
        write_report(self.output, report)


def write_report(output: Path | None, report: Mapping[str, Any]) -> None:
    """Writes a report as JSON, if there is a flag for it."""
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_json(output, report)


def parse_shapes(shapes: Iterable[str], names: str, example: str) -> list[tuple[int, ...]]:
    """The numbers in --shapes.

    >>> parse_shapes(["8,128,20"], "BTP", "8,128,20")
    [(8, 128, 20)]

    Raises:
      InputError: a shape is not of positive numbers, or does not fit the models, which have 512 positions.
    """
    parsed = []
    for shape in shapes:
        sizes = tuple(int(word) for word in shape.split(",") if word.isdecimal())
        if len(sizes) != len(names) or shape.count(",") != len(names) - 1 or min(sizes) < 1:
            raise InputError(
                f"--shapes must be positive numbers {','.join(names)}, such as {example}. Received {shape}."
            )
        _, T, *P = sizes
        if T > 512 or any(predictions > T for predictions in P):
            raise InputError(f"--shapes must have T of at most 512, and P of at most T. Received {shape}.")
        parsed.append(sizes)
    return parsed
