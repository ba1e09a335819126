"""Training throughput of models relative to one of them, measured on this machine in rounds."""

import dataclasses
import itertools
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from albert_tf.config import AlbertConfig
from albert_tf.lab.environment import describe_environment
from albert_tf.lab.peer_processes import Peer, await_replies
from albert_tf.lab.subprocesses import ProgramRunner
from albert_tf.lab.training_step import StepRequest
from albert_tf.training.cluster import loopback_clusters
from data_prep.errors import InputError
from data_prep.files import read_json_object, write_json


@dataclass(frozen=True)
class StepSettings:
    """The training steps whose throughput is measured.

    Attributes:
      batch_size: examples per step, of each worker.
      max_seq_length: T.
      dtype: float32 or bfloat16.
      steps: measured steps per round.
    """

    batch_size: int
    max_seq_length: int
    dtype: str
    steps: int = 3


def measure_speeds(
    configs: Mapping[str, AlbertConfig],
    reference: str,
    step: StepSettings,
    folder: Path,
    programs: ProgramRunner,
    *,
    workers: Sequence[int] = (1,),
    rounds: int = 3,
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
      programs: interrupts the measurement between models.
      workers: numbers of processes that take each step together and add up their gradients over loopback;
        includes 1.
      rounds: times that every model is measured.

    Returns:
      Number of workers -> name of the model -> values.

    Raises:
      InputError: a model's only process died.
      Preempted: this process received SIGTERM.
    """
    seconds = _measure_seconds(configs, step, folder, programs, workers, rounds)
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
    configs: Mapping[str, AlbertConfig],
    step: StepSettings,
    folder: Path,
    programs: ProgramRunner,
    workers: Sequence[int],
    rounds: int,
) -> dict[str, dict[str, list[float]]]:
    """Number of workers -> name -> the seconds per step in each round."""
    file = folder / "speed.json"
    environment = describe_environment()
    del environment["date"]
    request = {
        "step": dataclasses.asdict(step),
        "models": {name: config.to_dict() for name, config in configs.items()},
        "environment": environment,
    }
    kept = read_json_object(file) if file.exists() else {}
    is_same = {name: kept.get(name) for name in request} == request
    seconds: dict[str, dict[str, list[float]]] = kept["seconds"] if is_same else {}
    left_out: set[tuple[str, int]] = set()
    for number, name, together in itertools.product(range(rounds), configs, workers):
        measured = seconds.setdefault(f"{together}", {}).setdefault(name, [])
        if len(measured) > number or (name, together) in left_out:
            continue
        programs.check()
        with_workers = f" with {together} workers" if together > 1 else ""
        programs.log(f"speed of {name}{with_workers}, round {number + 1} of {rounds}")
        try:
            measured.append(_seconds_per_step(name, configs[name], step, together, folder))
        except InputError as error:
            programs.check()  # SIGTERM to the process group ends all processes
            if together == 1:
                raise
            left_out.add((name, together))
            programs.log(f"  left out: {error}")
        else:
            write_json(file, {**request, "seconds": seconds})
            programs.log(f"  {measured[-1]:.2f} seconds per step")
    return seconds


def _seconds_per_step(
    name: str, config: AlbertConfig, step: StepSettings, workers: int, folder: Path
) -> float:
    """The median of some steps, after one that does not count."""
    with StepProcesses(name, config, step, workers, folder) as processes:
        return statistics.median(processes.seconds() for _ in range(step.steps))


class StepProcesses:
    """The processes that take the training steps of one model.

    Attributes:
      peers: the processes.
    """

    def __init__(self, name: str, config: AlbertConfig, step: StepSettings, workers: int, folder: Path):
        request = StepRequest(config.to_dict(), step.batch_size, step.max_seq_length, step.dtype)
        arguments = json.dumps(dataclasses.asdict(request))
        self._command = [sys.executable, "-m", "albert_tf.lab.training_step", arguments]
        self._name, self._folder, self._workers = name, folder, workers
        self.peers: list[Peer] = []

    def __enter__(self):
        self.peers = [
            Peer.spawn(self._name, self._command, self._folder, variables)
            for variables in self._environments()
        ]
        if not self._step():
            self.__exit__()
            raise InputError(
                f"The training speed of {self._name} could not be measured, perhaps for lack of memory: see "
                f"{self._log}. --speed_sizes=scale measures smaller models."
            )
        return self

    def __exit__(self, *_):
        for peer in self.peers:
            peer.stop()

    def seconds(self) -> float:
        """The time of one step."""
        if not self._step():
            raise InputError(f"The process of {self._name} ended: see {self._log}.")
        return max(peer.steps[-1]["seconds"] for peer in self.peers)

    def _environments(self) -> list[dict[str, str]]:
        """Variables for each process, which is no worker of a cluster that this one may be in."""
        if self._workers == 1:
            return [{"TF_CONFIG": ""}]
        clusters = loopback_clusters(self._workers)
        return [{"TF_CONFIG": cluster, "CUDA_VISIBLE_DEVICES": "-1"} for cluster in clusters]

    @property
    def _log(self) -> Path:
        return self._folder / f"{self._name}.log"

    def _step(self) -> bool:
        """Takes a step in all processes; returns False if one has died."""
        return all(peer.request() for peer in self.peers) and await_replies(self.peers)
