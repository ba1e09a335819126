"""The flags of an experiment."""

import dataclasses
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from albert_tf.lab.scales import Scale
from data_prep.errors import InputError
from data_prep.text.documents import InputFormat


@dataclass(frozen=True)
class LabSettings:
    """The flags of an experiment; what is not said is the scale's.

    Attributes:
      output: the laboratory's folder. Its data and runs serve all experiments in it; the same command goes on with
        what was stopped, and more seeds are added to those that are there.
      input_file: text to pretrain on; files, globs, commas. table1 needs none.
      heldout_file: text to evaluate on. Default: every 20th of the files of --input_file, at least two.
      input_format: "prose", a document a file, or "lines", as for `albert prepare`.
      language: of prose, for the sentence breaker.
      spm_model_file: a vocabulary. Default: one is trained on the text.
      scale: tiny takes minutes a run on two cores; small, hours on a GPU; paper, days on a TPU pod: the paper's
        own settings.
      seeds: runs of each model, with the seeds 1, 2, ...; 0 trains nothing and measures the training speed alone,
        where the experiment has it.
      glue_dir: GLUE's folders as downloaded, to fine-tune on SST-2 and MNLI.
      squad_dir: a folder with train-v1.1.json and dev-v1.1.json, and the same of v2.0, to fine-tune on.
      race_dir: RACE's folder, to fine-tune on.
      num_train_steps: of each run.
      num_warmup_steps: steps of linear warm-up. Default: the same share as in the scale.
      train_batch_size: examples a step.
      learning_rate: the peak.
      max_seq_length: T.
      vocab_size: of a vocabulary that is trained.
      speed_sizes: which sizes' training speed is measured: the paper's, the scale's; auto, the paper's if memory
        allows.
      tpu: a TPU's name, grpc:// address or "local".
      strategy: which devices, as for `albert pretrain`.
      num_devices: so many GPUs, or devices made of the CPU.
      gradient_accumulation_steps: parts of a batch, one after the other, in less memory.
      mixed_precision: bfloat16 computes in bfloat16.
    """

    output: str
    input_file: str | None = None
    heldout_file: str | None = None
    input_format: InputFormat = "prose"
    language: str = "en"
    spm_model_file: str | None = None
    scale: Literal["tiny", "small", "paper"] = "tiny"
    seeds: int = 3
    glue_dir: str | None = None
    squad_dir: str | None = None
    race_dir: str | None = None
    num_train_steps: int | None = None
    num_warmup_steps: int | None = None
    train_batch_size: int | None = None
    learning_rate: float | None = None
    max_seq_length: int | None = None
    vocab_size: int | None = None
    speed_sizes: Literal["auto", "paper", "scale"] = "auto"
    tpu: str | None = None
    strategy: Literal["auto", "one", "mirrored", "multi_worker"] = "auto"
    num_devices: int | None = None
    gradient_accumulation_steps: int = 1
    mixed_precision: Literal["bfloat16"] | None = None

    def __post_init__(self):
        for name in ("num_train_steps", "train_batch_size", "max_seq_length", "vocab_size"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(f"--{name} must be at least 1. Received {getattr(self, name)}.")
        if self.seeds < 0:
            raise InputError(f"--seeds must not be negative. Received {self.seeds}.")
        if self.strategy == "multi_worker":
            raise InputError(
                "An experiment runs on one machine or TPU. Received --strategy=multi_worker; train its runs with "
                "`albert pretrain`."
            )

    @property
    def folder(self) -> Path:
        """`output` as a path."""
        return Path(self.output)

    def resolved(self, scale: Scale) -> "LabSettings":
        """With what the flags left to the scale."""
        values = {
            name: getattr(scale, name)
            for name in (
                "num_train_steps",
                "train_batch_size",
                "learning_rate",
                "max_seq_length",
                "vocab_size",
            )
            if getattr(self, name) is None
        }
        settings = dataclasses.replace(self, **values)
        if settings.num_warmup_steps is not None:
            return settings
        assert settings.num_train_steps
        warmup = round(settings.num_train_steps * scale.num_warmup_steps / scale.num_train_steps)
        return dataclasses.replace(settings, num_warmup_steps=warmup)

    def command(self, experiment: str) -> str:
        """What to type to do it again."""
        flags = [
            f"--{field.name}={getattr(self, field.name)}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        ]
        return shlex.join(["albert", "lab", experiment, *flags])
