"""Training throughput of models relative to one of them, measured on this machine in rounds."""

import itertools
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from albert_tf.config import AlbertConfig
from albert_tf.training.cluster import loopback_clusters
from benchmarks.processes import Peer, turn_together
from benchmarks.report import describe_machine
from data_prep.errors import InputError
from data_prep.files import read_json_object, write_json

_ROUNDS = 3
_STEPS = 3  # of a round, after one that does not count

Seconds = dict[str, dict[str, list[float]]]  # number of workers -> name -> the seconds per step in each round


@dataclass(frozen=True)
class StepSettings:
    """The steps whose throughput is measured: B examples of T tokens, of each worker, in a dtype."""

    B: int
    T: int
    dtype: str


def measure_speeds(
    configs: Mapping[str, AlbertConfig],
    reference: str,
    step: StepSettings,
    folder: Path,
    workers: Sequence[int],
) -> dict[int, dict[str, list[float]]]:
    """The examples per second of each model, relative to the reference in one process; one value per round.

    In every round, the processes of one model after the other start, take steps and end, so that only one model
    is in memory. A file in FOLDER keeps what is measured; an interrupted measurement resumes with what is missing,
    unless the machine or a version is another one.
    A model that several workers cannot train, perhaps for lack of memory, is left out.

    Args:
      configs: name -> model; includes the reference.
      reference: a name.
      step: the steps.
      folder: where to keep the result.
      workers: numbers of processes that take each step together and add up their gradients over loopback;
        includes 1.

    Returns:
      Number of workers -> name of the model -> values.

    Raises:
      InputError: a model's only process died.
    """
    seconds = _measure_seconds(configs, step, folder, workers)
    base = seconds["1"][reference]
    return {
        together: {
            name: [together * one / own for one, own in zip(base, measured, strict=False)]
            for name, measured in seconds[f"{together}"].items()
            if measured
        }
        for together in workers
    }


def _measure_seconds(
    configs: Mapping[str, AlbertConfig], step: StepSettings, folder: Path, workers: Sequence[int]
) -> Seconds:
    file, machine = folder / "speed.json", describe_machine()
    del machine["date"]
    models = {name: config.to_dict() for name, config in configs.items()}
    request = {"step": asdict(step), "models": models, "environment": machine}
    kept = read_json_object(file) if file.exists() else {}
    is_same = {name: kept.get(name) for name in request} == request
    seconds: Seconds = kept["seconds"] if is_same else {}
    left_out: set[tuple[str, int]] = set()
    for number, name, together in itertools.product(range(_ROUNDS), configs, workers):
        measured = seconds.setdefault(f"{together}", {}).setdefault(name, [])
        if len(measured) > number or (name, together) in left_out:
            continue
        print(f"speed of {name} with {together} workers, round {number + 1}", file=sys.stderr, flush=True)
        taken = _seconds_per_step(name, models[name], step, together, folder)
        if taken is not None:
            measured.append(taken)
            write_json(file, {**request, "seconds": seconds})
        elif together > 1:
            left_out.add((name, together))
        else:
            raise InputError(
                f"The training speed of {name} could not be measured, perhaps for lack of memory: see "
                f"{folder / name}.log. --speed_sizes=scale measures smaller models."
            )
    return seconds


def _seconds_per_step(
    name: str, config: dict, step: StepSettings, workers: int, folder: Path
) -> float | None:
    """The median of some steps, after one that does not count; None if a process has died."""
    # The process is no worker of a cluster that this one may be in.
    variables = [{"TF_CONFIG": ""}]
    if workers > 1:
        variables = [
            {"TF_CONFIG": cluster, "CUDA_VISIBLE_DEVICES": "-1"} for cluster in loopback_clusters(workers)
        ]
    arguments = {"config": config, **asdict(step), "P": max(1, round(0.15 * step.T))}
    peers = [
        Peer(name, "benchmarks.libraries.ours:training", arguments, folder, variables=each)
        for each in variables
    ]
    try:
        if not all(turn_together(peers) for _ in range(1 + _STEPS)):
            return None
    finally:
        for peer in peers:
            peer.stop()
    return statistics.median(
        max(reply["seconds"] for reply in turn)
        for turn in zip(*(peer.replies[1:] for peer in peers), strict=True)
    )
