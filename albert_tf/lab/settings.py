"""The flags of the experiments."""

import dataclasses
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from albert_tf.lab.scales import Scale
from data_prep.errors import InputError, check_at_least
from data_prep.text.sources import InputFormat


@dataclass(frozen=True)
class LabSettings:
    """The flags of an experiment; by default the scale decides.

    Attributes:
      output: the laboratory's folder. Its data and runs serve all of its experiments. The same command resumes an
        interrupted experiment; more seeds are added to those that are finished.
      input_file: text to pretrain on; files, globs, separated by commas. table1 needs none.
      heldout_file: text to evaluate on. Default: every 20th file of --input_file, at least two.
      input_format: "prose", one document per file, or "lines", as for `albert prepare`.
      language: language of prose, for the sentence breaker.
      spm_model_file: a SentencePiece vocabulary. Default: one is trained on the text.
      scale: tiny takes minutes per run on two cores; small, hours on a GPU; paper, the paper's own settings, days
        on a TPU pod.
      seeds: runs of each model, with the seeds 1, 2, ...; 0 trains nothing and measures only the training speed,
        if the experiment has it.
      glue_dir: folder with GLUE as downloaded, to fine-tune on SST-2 and MNLI.
      squad_dir: folder with train-v1.1.json, dev-v1.1.json, train-v2.0.json and dev-v2.0.json, to fine-tune on.
      race_dir: RACE's folder, to fine-tune on.
      num_train_steps: steps per run.
      num_warmup_steps: steps of linear warm-up. Default: the same share of the steps as in the scale.
      train_batch_size: examples per step.
      learning_rate: the peak.
      max_seq_length: T.
      vocab_size: size of a vocabulary that is trained.
      speed_sizes: the models whose training speed is measured: in the scale's sizes or in the paper's.
      tpu: a TPU's name, grpc:// address or "local".
      strategy: the devices to use, as for `albert pretrain`.
      num_devices: number of GPUs, or of devices that the CPU is split into.
      gradient_accumulation_steps: micro-batches per step, one after the other, to save memory.
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
    speed_sizes: Literal["scale", "paper"] = "scale"
    tpu: str | None = None
    strategy: Literal["auto", "one", "mirrored", "multi_worker"] = "auto"
    num_devices: int | None = None
    gradient_accumulation_steps: int = 1
    mixed_precision: Literal["bfloat16"] | None = None

    def __post_init__(self):
        check_at_least(1, self, "num_train_steps", "train_batch_size", "max_seq_length", "vocab_size")
        check_at_least(0, self, "seeds")
        if self.strategy == "multi_worker":
            raise InputError(
                "An experiment runs on one machine or TPU. Received --strategy=multi_worker; train its runs with "
                "`albert pretrain`."
            )

    @property
    def folder(self) -> Path:
        """`output` as a path."""
        return Path(self.output)

    def resolved(self, scale: Scale) -> "ResolvedLabSettings":
        """Fills in what the flags leave to the scale."""
        values = {
            name: getattr(scale, name) if value is None else value
            for name, value in vars(self).items()
            if name in _FROM_SCALE
        }
        if self.num_warmup_steps is None:
            steps = values["num_train_steps"] * scale.num_warmup_steps / scale.num_train_steps
            values["num_warmup_steps"] = round(steps)
        return ResolvedLabSettings(**{**vars(self), **values})

    def command(self, experiment: str) -> str:
        """The command line that repeats the experiment."""
        flags = [
            f"--{field.name}={getattr(self, field.name)}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        ]
        return shlex.join(["albert", "lab", experiment, *flags])


@dataclass(frozen=True, kw_only=True)
class ResolvedLabSettings(LabSettings):
    """The flags with a value for everything that the scale decides."""

    num_train_steps: int
    num_warmup_steps: int
    train_batch_size: int
    learning_rate: float
    max_seq_length: int
    vocab_size: int


_FROM_SCALE = frozenset(ResolvedLabSettings.__annotations__)


@dataclass(frozen=True)
class Figure1Settings:
    """The flags of `albert lab figure1` other than the checkpoints and the text.

    Attributes:
      output: the laboratory's folder; the results are written to its folder figure1.
      spm_model_file: a SentencePiece model, for checkpoints without a vocabulary.
      vocab_file: a WordPiece vocab.txt, for checkpoints without a vocabulary.
      do_lower_case: --nodo_lower_case if that vocabulary is cased. Default: as the file beside it says, else true.
      max_seq_length: tokens per sequence with [CLS] and [SEP]; fewer if a model has fewer positions.
      num_sequences: the number of sequences, evenly spread over the text.
    """

    output: str
    spm_model_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    max_seq_length: int = 512
    num_sequences: int = 32

    def __post_init__(self):
        check_at_least(3, self, "max_seq_length")
        check_at_least(1, self, "num_sequences")
        if self.spm_model_file and self.vocab_file:
            raise InputError("--spm_model_file and --vocab_file exclude each other. Received both; name one.")
