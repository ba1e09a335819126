"""Training throughput of models relative to one of them, measured on this machine in turns."""

import dataclasses
import json
import os
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

_TURNS = 3
_STEPS_OF_WORKERS = 3  # a turn of workers begins with their start, which takes longer than these steps


@dataclass(frozen=True)
class StepSettings:
    """The training steps whose throughput is measured.

    Attributes:
      batch_size: examples per step, of each worker.
      max_seq_length: T.
      dtype: float32 or bfloat16.
      workers: processes that take each step together and add up their gradients over loopback.
      turns: of each model, after one that does not count.
    """

    batch_size: int
    max_seq_length: int
    dtype: str
    workers: int = 1
    turns: int = _TURNS


def measure_ratios(
    configs: Mapping[str, AlbertConfig],
    reference: str,
    settings: StepSettings,
    folder: Path,
    programs: ProgramRunner,
) -> dict[str, list[float]]:
    """The examples per second of each model, relative to the reference; one value per turn.

    Without workers, a model and the reference alternate in turns of a few seconds, so that both find the machine
    in the same state; only these two are in memory. The workers of one model may need all memory: in each turn,
    those of one model after the other start, take steps and end.

    A file in FOLDER keeps what is measured, so that an interrupted measurement resumes with what is missing.

    Args:
      configs: name -> model; includes the reference, whose ratio is 1.
      reference: a name.
      settings: the steps.
      folder: where to keep the result.
      programs: interrupts the measurement between turns.

    Raises:
      InputError: a model's process died.
      Preempted: this process received SIGTERM.
    """
    workers = settings.workers
    measurements = _Measurements(
        folder / ("speed.json" if workers == 1 else f"speed_{workers}_workers.json"),
        {
            "settings": dataclasses.asdict(settings),
            "reference": reference,
            "models": {name: config.to_dict() for name, config in configs.items()},
        },
    )
    measure = _alternating if workers == 1 else _one_after_the_other
    try:
        ratios = measure(configs, reference, settings, measurements, programs)
    except InputError:
        programs.check()  # SIGTERM to the process group ends all processes
        raise
    return {**ratios, reference: [1.0]}


class _Measurements:
    """Values by model, and the file that keeps them if it is of the same request."""

    def __init__(self, file: Path, request: dict):
        self.folder, self._file, self._request = file.parent, file, request
        kept = read_json_object(file) if file.exists() else {}
        is_same = {name: kept.get(name) for name in request} == request
        self.values: dict[str, list[float]] = kept["measured"] if is_same else {}

    def write(self) -> None:
        write_json(self._file, {**self._request, "measured": self.values})


def _alternating(configs, reference, settings, measurements: _Measurements, programs):
    """The ratios of models that take turns with the reference."""
    ratios, folder = measurements.values, measurements.folder
    missing = [name for name in configs if name not in ratios and name != reference]
    if not missing:
        return ratios
    with StepProcesses(reference, configs[reference], settings, folder) as base:
        for name in missing:
            programs.log(f"speed of {name}, in turns with {reference}")
            with StepProcesses(name, configs[name], settings, folder) as other:
                ratios[name] = [_turn(base, other, programs) for _ in range(settings.turns)]
            measurements.write()
            programs.log(f"  {statistics.median(ratios[name]):.2f} times as many examples per second")
    return ratios


def _turn(base: "StepProcesses", other: "StepProcesses", programs: ProgramRunner) -> float:
    programs.check()
    return base.seconds() / other.seconds()


def _one_after_the_other(configs, reference, settings, measurements: _Measurements, programs):
    """The ratios of models that are alone in memory; what is kept is seconds per step, one value per turn."""
    seconds = measurements.values
    for turn in range(settings.turns):
        for name, config in configs.items():
            if len(seconds.setdefault(name, [])) > turn:
                continue
            programs.check()
            programs.log(
                f"speed of {name} with {settings.workers} workers, turn {turn + 1} of {settings.turns}"
            )
            with StepProcesses(name, config, settings, measurements.folder) as processes:
                steps = [processes.seconds() for _ in range(_STEPS_OF_WORKERS)]
            seconds[name].append(statistics.median(steps))
            measurements.write()
            programs.log(f"  {seconds[name][-1]:.2f} seconds per step")
    return {
        name: [base / own for base, own in zip(seconds[reference], times, strict=True)]
        for name, times in seconds.items()
    }


class StepProcesses:
    """The processes that take the training steps of one model; without workers, one that is stopped in between.

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
        """Variables for each process."""
        if self._workers > 1:
            clusters = loopback_clusters(self._workers)
            return [{"TF_CONFIG": cluster, "CUDA_VISIBLE_DEVICES": "-1"} for cluster in clusters]
        name = "TF_FORCE_GPU_ALLOW_GROWTH"  # two processes share the GPU
        return [{name: os.environ.get(name, "true")}]

    @property
    def _log(self) -> Path:
        return self._folder / f"{self._name}.log"

    def _step(self) -> bool:
        """Takes a step in all processes; returns False if one has died."""
        if len(self.peers) == 1:
            return self.peers[0].step()
        # Workers are not stopped: they answer each other's heartbeats.
        return all(peer.request() for peer in self.peers) and all(peer.reply() for peer in self.peers)
