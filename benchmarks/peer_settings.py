"""The flags that the benchmarks beside other libraries have in common.

The libraries' processes (the modules *_peers) parse their few flags with argparse, because they may run in another
environment, which may lack cyclopts.
"""

import os
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from albert_tf.lab.environment import describe_processor
from albert_tf.lab.peer_processes import Peer
from data_prep.errors import InputError, check_among
from data_prep.files import write_json

OURS = "albert_tf"


def find_peer(peers: Iterable[Peer], name: str = OURS) -> Peer:
    """The process that the others are compared with.

    Raises:
      InputError: it does not run, or has died.
    """
    found = next((peer for peer in peers if peer.name == name), None)
    if found is None:
        raise InputError(
            f"{name} must run to the end, because the others are compared with it. Its process ended; its error "
            f"is in {name}.log in the folder --logs."
        )
    return found


def parse_shapes(shapes: Iterable[str], names: str, example: str) -> list[tuple[int, ...]]:
    """The numbers in --shapes.

    >>> parse_shapes(["8,128,20"], "BTP", "8,128,20")
    [(8, 128, 20)]

    Raises:
      InputError: a shape is not of positive numbers, or does not fit the models, which have 512 positions.
    """
    parsed = []
    for shape in shapes:
        words = shape.split(",")
        sizes = tuple(int(word) for word in words if word.isdecimal())
        if len(words) != len(names) or len(sizes) != len(words) or min(sizes) < 1:
            raise InputError(
                f"--shapes must be positive numbers {','.join(names)}, such as {example}. Received {shape}."
            )
        _, T, *P = sizes
        if T > 512 or any(predictions > T for predictions in P):
            raise InputError(f"--shapes must have T of at most 512, and P of at most T. Received {shape}.")
        parsed.append(sizes)
    return parsed


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
    logs: Path
    output: Path | None = None

    def __init_subclass__(cls) -> None:
        """Appends the attributes above to a subclass's docstring, from which --help takes the descriptions."""
        _, shared = (PeerSettings.__doc__ or "").split("Attributes:\n")
        cls.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n{shared}"

    def check_peers(self, known: Collection[str], ours_required: bool = True) -> None:
        """Raises InputError for an unknown library, or if albert_tf is required and missing."""
        check_among(known, "peers", self.peers)
        if wrong := [value for value in self.python if "=" not in value]:
            raise InputError(
                f"--python must be NAME=PATH, such as hugging_face=env/bin/python. Received {wrong[0]}."
            )
        if ours_required and OURS not in self.peers:
            raise InputError(f"--peers must name {OURS}, which the others are compared with.")

    def interpreter(self, peer: str) -> str:
        """The path of the Python interpreter that runs a library."""
        return dict(value.split("=", 1) for value in self.python).get(peer, sys.executable)

    def new_report(self) -> dict[str, Any]:
        """Creates the folders of logs and results, and returns a report that describes the machine."""
        self.logs.mkdir(parents=True, exist_ok=True)
        if self.output:
            self.output.parent.mkdir(parents=True, exist_ok=True)
        return {**describe_processor(), "cores": os.cpu_count()}

    def write(self, report: dict[str, Any]) -> None:
        """Writes the report to `output`, if given."""
        if self.output:
            write_json(self.output, report)
