"""Training throughput of models relative to one of them, measured on this device in turns."""

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
from data_prep.errors import InputError
from data_prep.files import read_json_object, write_json

_TURNS = 3


@dataclass(frozen=True)
class StepSettings:
    """The training steps whose throughput is measured.

    Attributes:
      batch_size: examples per step.
      max_seq_length: T.
      dtype: float32 or bfloat16.
      turns: of each model, after one that does not count.
    """

    batch_size: int
    max_seq_length: int
    dtype: str
    turns: int = _TURNS


def measure_ratios(
    configs: Mapping[str, AlbertConfig],
    reference: str,
    settings: StepSettings,
    folder: Path,
    programs: ProgramRunner,
) -> dict[str, list[float]]:
    """The examples per second of each model, relative to the reference; one value per turn.

    A model and the reference alternate in turns of a few seconds, so that both find the machine in the same state;
    only these two are in memory. FOLDER/speed.json keeps what is measured, so that
    a measurement that was interrupted resumes with the next model.

    Args:
      configs: name -> model; includes the reference, whose ratio is 1.
      reference: a name.
      settings: the steps.
      folder: where to keep the result.
      programs: interrupts the measurement between turns.

    Raises:
      InputError: a model's process died.
    """
    file = folder / "speed.json"
    request = {
        "settings": dataclasses.asdict(settings),
        "reference": reference,
        "models": {name: config.to_dict() for name, config in configs.items()},
    }
    kept = read_json_object(file) if file.exists() else {}
    ratios: dict[str, list[float]] = {reference: [1.0]}
    if {name: kept.get(name) for name in request} == request:
        ratios = kept["ratios"]
    missing = [name for name in configs if name not in ratios]
    if not missing:
        return ratios
    with SpeedProcess(reference, configs[reference], settings, folder) as base:
        for name in missing:
            programs.log(f"speed of {name}, in turns with {reference}")
            with SpeedProcess(name, configs[name], settings, folder) as other:
                ratios[name] = [_turn(base, other, programs) for _ in range(settings.turns)]
            write_json(file, {**request, "ratios": ratios})
            programs.log(f"  {statistics.median(ratios[name]):.2f} times as many examples per second")
    return ratios


def _turn(base: "SpeedProcess", other: "SpeedProcess", programs: ProgramRunner) -> float:
    programs.check()
    return base.seconds() / other.seconds()


class SpeedProcess:
    """A process that takes training steps of one model during its turns and is stopped in between."""

    def __init__(self, name: str, config: AlbertConfig, settings: StepSettings, folder: Path):
        self._name, self._folder = name, folder
        request = StepRequest(config.to_dict(), settings.batch_size, settings.max_seq_length, settings.dtype)
        arguments = json.dumps(dataclasses.asdict(request))
        self._command = [sys.executable, "-m", "albert_tf.lab.training_step", arguments]

    def __enter__(self):
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # two processes share the GPU
        peer = Peer.start(self._name, self._command, self._folder)
        if peer is None:
            raise InputError(
                f"The training speed of {self._name} could not be measured, perhaps for lack of memory: see "
                f"{self._folder / self._name}.log. --speed_sizes=scale measures smaller models."
            )
        self._peer = peer
        return self

    def __exit__(self, *_):
        self._peer.stop()

    def seconds(self) -> float:
        """The time of one step, while our other processes are stopped."""
        if not self._peer.step():
            raise InputError(f"The process of {self._name} ended: see {self._folder / self._name}.log.")
        return self._peer.steps[-1]["seconds"]
