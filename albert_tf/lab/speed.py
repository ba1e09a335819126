"""Training throughput of models relative to one of them, measured on this machine in rounds."""

import dataclasses
import json
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from albert_tf.config import AlbertConfig
from albert_tf.lab.peer_processes import Peer
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
      workers: processes that take each step together and add up their gradients over loopback.
      rounds: times that every model is measured.
      steps: measured steps per round.
    """

    batch_size: int
    max_seq_length: int
    dtype: str
    workers: int = 1
    rounds: int = 3
    steps: int = 3


def measure_ratios(
    configs: Mapping[str, AlbertConfig],
    reference: str,
    settings: StepSettings,
    folder: Path,
    programs: ProgramRunner,
) -> dict[str, list[float]]:
    """The examples per second of each model, relative to the reference; one value per round.

    In every round, the processes of one model after the other start, take steps and end, so that only one model
    is in memory. A file in FOLDER keeps what is measured; an interrupted measurement resumes with what is missing.

    Args:
      configs: name -> model; includes the reference, whose ratio is 1.
      reference: a name.
      settings: the steps.
      folder: where to keep the result.
      programs: interrupts the measurement between models.

    Raises:
      InputError: a model's process died.
      Preempted: this process received SIGTERM.
    """
    workers = settings.workers
    file = folder / ("speed.json" if workers == 1 else f"speed_{workers}_workers.json")
    request = {
        "settings": dataclasses.asdict(settings),
        "reference": reference,
        "models": {name: config.to_dict() for name, config in configs.items()},
    }
    kept = read_json_object(file) if file.exists() else {}
    is_same = {name: kept.get(name) for name in request} == request
    seconds: dict[str, list[float]] = kept["seconds"] if is_same else {}
    for number in range(settings.rounds):
        for name, config in configs.items():
            if len(seconds.setdefault(name, [])) > number:
                continue
            programs.check()
            with_workers = f" with {workers} workers" if workers > 1 else ""
            programs.log(f"speed of {name}{with_workers}, round {number + 1} of {settings.rounds}")
            seconds[name].append(_seconds_per_step(name, config, settings, folder, programs))
            write_json(file, {**request, "seconds": seconds})
            programs.log(f"  {seconds[name][-1]:.2f} seconds per step")
    ratios = {
        name: [base / own for base, own in zip(seconds[reference], of_model, strict=True)]
        for name, of_model in seconds.items()
    }
    return {**ratios, reference: [1.0]}


def _seconds_per_step(
    name: str, config: AlbertConfig, settings: StepSettings, folder: Path, programs: ProgramRunner
) -> float:
    """The median of some steps, after one that does not count."""
    try:
        with StepProcesses(name, config, settings, folder) as processes:
            return statistics.median(processes.seconds() for _ in range(settings.steps))
    except InputError:
        programs.check()  # SIGTERM to the process group ends all processes
        raise


class StepProcesses:
    """The processes that take the training steps of one model.

    Attributes:
      peers: the processes.
    """

    def __init__(self, name: str, config: AlbertConfig, settings: StepSettings, folder: Path):
        request = StepRequest(config.to_dict(), settings.batch_size, settings.max_seq_length, settings.dtype)
        arguments = json.dumps(dataclasses.asdict(request))
        self._command = [sys.executable, "-m", "albert_tf.lab.training_step", arguments]
        self._name, self._folder, self._workers = name, folder, settings.workers
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
        return all(peer.request() for peer in self.peers) and all(peer.reply() for peer in self.peers)
