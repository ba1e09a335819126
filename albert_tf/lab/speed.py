"""Training throughput of models as a ratio to one of them, measured on this device in turns."""

import dataclasses
import json
import os
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from albert_tf.config import AlbertConfig
from albert_tf.lab.programs import Programs
from albert_tf.lab.training_step import StepRequest
from albert_tf.lab.turns import Peer
from albert_tf.parameters import count_parameters
from data_prep.errors import InputError
from data_prep.files import write_text

TURNS = 3
# In float32: a weight, its gradient, two moments and what LAMB makes of them; a layer's activations.
_BYTES_PER_PARAMETER, _BYTES_PER_UNIT, _BYTES_PER_SCORE = 24, 64, 10
_BYTES_PER_PROCESS = 1e9


@dataclass(frozen=True)
class SpeedSettings:
    """How throughput is measured.

    Attributes:
      batch_size: examples a step.
      max_seq_length: T.
      dtype: float32 or bfloat16.
      turns: of each model, after one that is not counted.
    """

    batch_size: int
    max_seq_length: int
    dtype: str
    turns: int = TURNS


def measure_ratios(
    configs: Mapping[str, AlbertConfig],
    reference: str,
    settings: SpeedSettings,
    folder: Path,
    programs: Programs,
) -> dict[str, list[float]]:
    """How many times the reference's examples a second each model takes, one value a turn.

    A model and the reference take steps in turns of a few seconds, so that both find the machine in the same
    state; only these two are in memory. What was measured is kept in FOLDER/speed.json.

    Args:
      configs: name -> model; with the reference, whose ratio is 1.
      reference: a name.
      settings: of the measurement.
      folder: where to keep it.
      programs: asked between turns whether to stop.

    Raises:
      InputError: a model's process died.
    """
    file = folder / "speed.json"
    asked = {
        "settings": dataclasses.asdict(settings),
        "reference": reference,
        "models": {name: config.to_dict() for name, config in configs.items()},
    }
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if {name: kept.get(name) for name in asked} == asked:
        return kept["ratios"]
    ratios: dict[str, list[float]] = {reference: [1.0]}
    with Process(reference, configs[reference], settings, folder) as base:
        for name, config in configs.items():
            if name != reference:
                programs.say(f"speed of {name}, in turns with {reference}")
                with Process(name, config, settings, folder) as other:
                    ratios[name] = [_turn(base, other, programs) for _ in range(settings.turns)]
                programs.say(f"  {statistics.median(ratios[name]):.2f} times as many examples a second")
    write_text(file, json.dumps({**asked, "ratios": ratios}, indent=2) + "\n")
    return ratios


def _turn(base: "Process", other: "Process", programs: Programs) -> float:
    programs.check()
    return base.seconds() / other.seconds()


class Process:
    """A process that takes training steps of one model when it is its turn; stopped otherwise."""

    def __init__(self, name: str, config: AlbertConfig, settings: SpeedSettings, folder: Path):
        self._name, self._folder = name, folder
        request = StepRequest(config.to_dict(), settings.batch_size, settings.max_seq_length, settings.dtype)
        self._command = [
            sys.executable,
            "-m",
            "albert_tf.lab.training_step",
            json.dumps(dataclasses.asdict(request)),
        ]

    def __enter__(self):
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # two processes share the GPU
        peer = Peer.start(self._name, self._command, self._folder)
        if peer is None:
            raise InputError(
                f"The training speed of {self._name} could not be measured, perhaps for want of memory: see "
                f"{self._folder / self._name}.log. --speed_sizes=scale measures smaller models."
            )
        self._peer = peer
        return self

    def __exit__(self, *_):
        self._peer.stop()

    def seconds(self) -> float:
        """One step's time; nothing else of ours runs meanwhile."""
        if not self._peer.step():
            raise InputError(f"The process of {self._name} ended: see {self._folder / self._name}.log.")
        return self._peer.steps[-1]["seconds"]


def bytes_of_step(config: AlbertConfig, settings: SpeedSettings) -> float:
    """Roughly what a process that trains a model takes."""
    T, H, N = settings.max_seq_length, config.hidden_size, config.num_attention_heads
    tokens = settings.batch_size * T * config.num_hidden_layers
    activations = tokens * (_BYTES_PER_UNIT * H + _BYTES_PER_SCORE * N * T)
    return _BYTES_PER_PROCESS + _BYTES_PER_PARAMETER * count_parameters(config).pretrainer + activations


def available_bytes() -> float:
    """Memory that is free or can be made so; infinity where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return float("inf")
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def fits(configs: Mapping[str, AlbertConfig], reference: str, settings: SpeedSettings) -> bool:
    """Whether the reference and the largest of the others have room beside each other."""
    others = max(bytes_of_step(config, settings) for name, config in configs.items() if name != reference)
    return bytes_of_step(configs[reference], settings) + others < available_bytes()
