"""What benchmarks and experiments report: the machine, comparisons of peers, and Markdown tables."""

import datetime
import importlib.metadata
import os
import platform
import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import albert_tf
from benchmarks.processes import Peer
from data_prep.errors import InputError

OURS = "albert_tf"  # the process that the others are compared with
CLOCKS = ("seconds", "user_seconds")


def describe_machine() -> dict[str, Any]:
    """Machine, versions and date; imports neither TensorFlow nor Keras."""
    fields = _processor_fields()
    versions = {name: _version(name) for name in ("tensorflow", "keras")}
    processor = fields.get("model name") or platform.processor() or "unknown processor"
    return {
        "machine": f"{platform.system()} {platform.machine()}, {processor}",
        "bfloat16": sorted({"avx512_bf16", "amx_bf16"} & set(fields.get("flags", "").split())),
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        **versions,
        "albert_tf": albert_tf.__version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def compare(
    peers: Sequence[Peer], work: Callable[[Peer], Sequence[float]], other_libraries: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Each peer's rates by the clock and by user CPU time, which other work on the machine affects less.

    Rates are medians over the turns. So are ratios of rates, because the peers' turns are seconds apart:
    `of_best_peer` divides by the rate of the fastest of the other libraries, `albert_tf_times` divides the rate of
    albert_tf by the peer's.

    Args:
      peers: have taken equally many turns, albert_tf among them.
      work: peer -> the amount of work in each of its turns, such as tokens.
      other_libraries: the names of the peers that are other libraries.

    Raises:
      InputError: albert_tf has died.
    """
    if OURS not in (peer.name for peer in peers):
        raise InputError(
            f"{OURS} must run to the end, because the others are compared with it. Its process ended; its error "
            f"is in {OURS}.log in the folder --logs."
        )
    rows: dict[str, dict[str, Any]] = {
        peer.name: {
            "peak_megabytes": max(reply["peak_megabytes"] for reply in peer.replies),
            "first_turn_seconds": peer.first_turn_seconds,
        }
        for peer in peers
    }
    for clock in CLOCKS:
        rates = {
            # A short turn may take no tick of CPU time.
            peer.name: [
                amount / max(1e-9, reply[clock])
                for amount, reply in zip(work(peer), peer.replies, strict=True)
            ]
            for peer in peers
        }
        medians = {name: statistics.median(of_peer) for name, of_peer in rates.items()}
        best = max(set(medians) & set(other_libraries), key=lambda name: medians[name], default=None)
        for peer in peers:
            of_peer, row = rates[peer.name], rows[peer.name]
            times = _ratios(rates[OURS], of_peer)
            row[f"per_{clock.removesuffix('s')}"] = medians[peer.name]
            row[f"albert_tf_times_by_{clock}"] = statistics.median(times)
            row[f"range_of_times_by_{clock}"] = [min(times), max(times)]
            if best:
                row[f"of_best_peer_by_{clock}"] = statistics.median(_ratios(of_peer, rates[best]))
            row[clock] = [round(reply[clock], 6) for reply in peer.replies]
    return rows


def _ratios(rates: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(rates, others, strict=True)]


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table whose columns but the first are aligned to the right.

    >>> print(markdown_table(("", "MB"), [("albert_tf", 12)]))
    |  | MB |
    | --- | ---: |
    | albert_tf | 12 |
    """
    lines = [header, ["---", *("---:" for _ in header[1:])], *rows]
    cells = ([str(cell).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # tensorflow-tpu instead
        return "unknown"


def _processor_fields() -> dict[str, str]:
    """One core's fields of /proc/cpuinfo; empty on systems without it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines) if value
    }
