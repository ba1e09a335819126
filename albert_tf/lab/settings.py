"""The flags of the experiments."""

import dataclasses
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from albert_tf.lab.scales import Scale
from data_prep.errors import InputError, check_at_least
from data_prep.text.sources import InputFormat


def check_output(output: str) -> None:
    """Raises InputError if a folder's name is a pattern, because neither text nor checkpoints are found in it."""
    if any(character in output for character in ",*?["):
        raise InputError(
            "--output must have none of the characters , * ? and [, because they make a name a pattern. Received "
            f"{output}; use another name."
        )


@dataclass(frozen=True)
class LabSettings:
    """The flags of an experiment; by default the scale decides.

    Attributes:
      output: folder of the laboratory; all experiments share its data and runs. The same command resumes an
        interrupted experiment.
      input_file: text to pretrain on, as for `albert prepare`; not needed with --seeds=0.
      heldout_file: text to evaluate on. Default: one in 20 files of --input_file, at least two, chosen
        by their names.
      input_format: layout of text files: "lines" has one sentence per line and a blank line between documents;
        "prose" has one document per file and a blank line between paragraphs.
      language: language of prose, as an ISO 639 code; it decides how text is split into sentences.
      spm_model_file: SentencePiece model to use. Default: one is trained on the text.
      scale: size of the models and length of the runs: "tiny" takes minutes per run on two cores; "small", hours
        on a GPU; "paper", days on a TPU pod with the paper's own settings.
      seeds: number of runs of each model, with seeds from 1; 0 trains nothing and measures only the training
        speed, in experiments that do so.
      glue_dir: folder of GLUE as downloaded; adds fine-tuning on SST-2 and MNLI.
      squad_dir: folder with train-v1.1.json, dev-v1.1.json, train-v2.0.json and dev-v2.0.json; adds fine-tuning
        on SQuAD.
      race_dir: folder of RACE as downloaded; adds fine-tuning on RACE.
      num_train_steps: number of training steps in each run. Default: set by --scale.
      num_warmup_steps: number of steps during which the learning rate rises linearly to its peak. Default: the
        same share of the steps as in --scale.
      train_batch_size: number of examples per step, over all devices. Default: set by --scale.
      learning_rate: peak learning rate, reached at the end of the warm-up. Default: set by --scale.
      max_seq_length: length of an example in tokens, T, including [CLS] and [SEP]. Default: set by --scale.
      vocab_size: number of pieces of a vocabulary that is trained, including the symbols. Default: set by
        --scale.
      speed_sizes: models whose training speed is measured: those of --scale, or the paper's.
      speed_workers: number of worker processes. With 2 or more, speed is also measured with that many workers on
        this machine, which share its cores and exchange gradients over loopback. Models of which that many copies
        do not fit into memory are left out.
      tpu: TPU to train on: its name, its grpc:// address, or "local" on the TPU's own machine.
      strategy: how to distribute training, as for `albert pretrain`, on one machine or TPU.
      num_devices: number of GPUs to use; without GPUs, number of virtual devices to divide the CPU into.
        Default: all GPUs, or one CPU device.
      gradient_accumulation_steps: number of micro-batches that each device divides its share of a batch into.
        More need less memory and give the same result.
      mixed_precision: "bfloat16" computes in bfloat16 and keeps weights, losses, LayerNorm and optimizer in
        float32. Use it on TPUs, recent GPUs, and CPUs with AMX or AVX512-BF16.
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
    speed_workers: int = 1
    tpu: str | None = None
    strategy: Literal["auto", "one", "mirrored", "multi_worker"] = "auto"
    num_devices: int | None = None
    gradient_accumulation_steps: int = 1
    mixed_precision: Literal["bfloat16"] | None = None

    def __post_init__(self):
        positive = ("num_train_steps", "train_batch_size", "max_seq_length", "vocab_size", "speed_workers")
        check_at_least(1, self, *positive)
        check_at_least(0, self, "seeds", "num_warmup_steps")
        check_output(self.output)
        if self.strategy == "multi_worker":
            raise InputError(
                "An experiment runs on one machine or TPU. Received --strategy=multi_worker; train its runs with "
                "`albert pretrain`."
            )
        for name, usual in (("speed_workers", 1), ("speed_sizes", "scale")):
            if self.tpu and getattr(self, name) != usual:
                raise InputError(
                    f"--{name} measures speed on the cores of this machine; on a TPU, it is that of the runs. "
                    f"Received {getattr(self, name)} with --tpu={self.tpu}; omit one."
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
      output: folder of the laboratory; the results are written to its folder figure1.
      spm_model_file: SentencePiece model, for checkpoints without a vocabulary.
      vocab_file: WordPiece vocab.txt, for checkpoints without a vocabulary.
      do_lower_case: --nodo_lower_case declares a cased vocabulary. Default: what the settings file beside the
        vocabulary says, or lower case without one.
      max_seq_length: length of a sequence in tokens, including [CLS] and [SEP]; at most the number of positions
        of any of the models.
      num_sequences: number of sequences, spread evenly over the text.
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
