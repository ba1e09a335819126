"""The flags of pretraining, under the original's names."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from albert_tf.config import Remat
from albert_tf.pretraining.phases import Phase, ResolvedPhase, parse_phase
from albert_tf.training.cluster import check_devices
from albert_tf.training.positions import ResizePositions
from data_prep.errors import InputError, check_at_least


@dataclass(frozen=True)
class PretrainingSettings:
    """The flags of a pretraining run.

    Attributes:
      albert_config_file: the model's albert_config.json.
      output_dir: the run's folder; if it holds a run, this run resumes from its last checkpoint.
      input_file: TFRecord files to train on; commas and globs.
      eval_file: TFRecord files to evaluate on, made from documents that are not in --input_file; commas and globs.
      phase: instead of --input_file, --eval_file and --num_train_steps, one phase of a run that trains on
        sequences of several lengths, for instance
        --phase='input_file=data32/train.tfrecord* eval_file=data32/heldout.tfrecord num_train_steps=4000
        train_batch_size=64'. Give the flag once for each phase, short sequences first. A phase may leave out
        eval_file, and train_batch_size if the flag of this name gives it.
      spm_model_file: the SentencePiece model or WordPiece vocab.txt that the files were made with; it is copied to
        the run for export. Default: the one in their manifest.json, if it still exists.
      init_checkpoint: the source of the initial weights: a run, a checkpoint, a name that `albert models` lists,
        or anything else that `albert convert` reads.
      do_train: train.
      do_eval: evaluate at every checkpoint and at the end.
      train_batch_size: examples per step, over all devices.
      eval_batch_size: examples per evaluation step.
      max_seq_length: T of the files. Default: read from the files.
      max_predictions_per_seq: P of the files. Default: read from the files.
      optimizer: lamb or adamw.
      learning_rate: the peak. Default: the paper's 0.00176 for lamb and BERT's 0.0001 for adamw, scaled by the
        square root of --train_batch_size over the batch that they were published for, 4096 and 256.
      poly_power: power of the polynomial decay.
      num_train_steps: steps of the whole run. Default: the paper's 125,000.
      num_warmup_steps: steps of linear warm-up.
      start_warmup_step: the step at which the warm-up begins, for a run that continues with another rate.
      save_checkpoints_steps: steps between checkpoints.
      keep_checkpoint_max: number of checkpoints to keep.
      max_eval_steps: maximum number of batches per evaluation.
      log_steps: steps between lines in metrics.jsonl; every checkpoint is logged too.
      seed: seeds initial weights, order of examples and dropout.
      tpu: a TPU's name, its grpc:// address, or "local".
      strategy: one device; all GPUs of this machine (mirrored); or one process on each of several machines,
        which TF_CONFIG lists and which share --output_dir (multi_worker). auto uses what is available.
      num_devices: number of GPUs to use, or without GPUs the number of devices to divide the CPU into. Default:
        all GPUs, or one.
      gradient_accumulation_steps: micro-batches into which each device cuts its share of a batch; the result is
        the same and takes less memory.
      iterations_per_loop: steps between checks for signals and updates of the progress bar. Default: as many as
        take about 2 seconds; 10 with several workers.
      remat: recompute activations in the backward pass instead of keeping them. activations: only attention
        probabilities and gelu, a few percent slower. layers, or the flag without a value: everything inside each
        layer, least memory, about a third slower.
      scan_layers: compile layers that share their parameters once, as a loop. With XLA, as on TPUs, training
        starts many times sooner.
      mixed_precision: bfloat16 computes in bfloat16; weights, losses, LayerNorm and optimizer stay in float32.
      jit_compile: compile the step with XLA. auto: on GPUs. TPUs always do.
      spike_factor: a logged loss is a spike if it is more than this factor above the median of the last 20.
      spike_intervals: after this many logged spikes in a row the run rolls back to the weights of the last good
        checkpoint.
      max_rollbacks: maximum number of roll-backs; after that the run stops with advice.
      early_stopping_patience: stop after this many evaluations of the last phase in a row without a new best
        held-out loss.
      init_optimizer: also restore the optimizer's moments and step count from --init_checkpoint.
      init_from_group0: groups of layers that --init_checkpoint does not hold start as copies of its first group.
      resize_positions: allow another length of the position table of --init_checkpoint. A shorter table has its
        first rows. A longer one, without a value or with tile, repeats them (moments too); with fresh, new rows
        start from random values.
    """

    albert_config_file: str
    output_dir: str
    input_file: str | None = None
    eval_file: str | None = None
    phase: tuple[str, ...] = ()
    spm_model_file: str | None = None
    init_checkpoint: str | None = None
    do_train: bool = False
    do_eval: bool = False
    train_batch_size: int = 4096
    eval_batch_size: int = 64
    max_seq_length: int | None = None
    max_predictions_per_seq: int | None = None
    optimizer: Literal["lamb", "adamw"] = "lamb"
    learning_rate: float | None = None
    poly_power: float = 1.0
    num_train_steps: int | None = None
    num_warmup_steps: int = 3125
    start_warmup_step: int = 0
    save_checkpoints_steps: int = 5000
    keep_checkpoint_max: int = 5
    max_eval_steps: int = 100
    log_steps: int = 100
    seed: int = 12345
    tpu: str | None = None
    strategy: Literal["auto", "one", "mirrored", "multi_worker"] = "auto"
    num_devices: int | None = None
    gradient_accumulation_steps: int = 1
    iterations_per_loop: int | None = None
    remat: Remat = False
    scan_layers: bool = False
    mixed_precision: Literal["bfloat16"] | None = None
    jit_compile: Literal["auto", "on", "off"] = "auto"
    spike_factor: float = 1.5
    spike_intervals: int = 3
    max_rollbacks: int = 3
    early_stopping_patience: int | None = None
    init_optimizer: bool = False
    init_from_group0: bool = False
    resize_positions: ResizePositions = False

    def __post_init__(self):
        if not self.do_train and not self.do_eval:
            raise InputError("At least one of --do_train and --do_eval must be given. Received neither.")
        if self.do_eval and not self.do_train and not self.eval_file and not self.phase:
            raise InputError(
                "--do_eval needs --eval_file: evaluation never reads the training files. Prepare examples of "
                "held-out documents with `albert prepare` and name them."
            )
        check_at_least(1, self, *_AT_LEAST_ONE)
        check_at_least(0, self, "num_warmup_steps", "start_warmup_step", "max_rollbacks")
        for name in ("learning_rate", "poly_power"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"--{name} must be a number above 0. Received {value}.")
        check_devices(self)
        self._check_survival()

    def _check_survival(self):
        if not self.spike_factor > 1:
            raise InputError(f"--spike_factor must be above 1. Received {self.spike_factor}.")
        if self.init_optimizer and self.init_from_group0:
            raise InputError(
                "--init_optimizer and --init_from_group0 exclude each other, since the moments of other groups do "
                "not fit. Received both; leave one out."
            )
        for name in ("init_optimizer", "init_from_group0", "resize_positions"):
            if getattr(self, name) and not self.init_checkpoint:
                raise InputError(f"--{name} needs --init_checkpoint. Received none; name a checkpoint.")


_AT_LEAST_ONE = (
    "train_batch_size",
    "eval_batch_size",
    "num_train_steps",
    "save_checkpoints_steps",
    "keep_checkpoint_max",
    "max_eval_steps",
    "log_steps",
    "num_devices",
    "gradient_accumulation_steps",
    "iterations_per_loop",
    "spike_intervals",
    "early_stopping_patience",
)

# Flags that --phase replaces.
_OF_A_PHASE = ("input_file", "eval_file", "num_train_steps", "max_seq_length", "max_predictions_per_seq")
_PAPER_STEPS = 125_000

# A run keeps these: with another order of data or other mathematics it would be another run.
FIXED = (
    "input_file",
    "train_batch_size",
    "max_seq_length",
    "max_predictions_per_seq",
    "optimizer",
    "seed",
)


@dataclass(frozen=True)
class ResolvedPretrainingSettings(PretrainingSettings):
    """The flags of a run with every default filled in; settings.json holds these.

    Attributes:
      phases: at least one; a run without --phase is one phase.
      num_train_steps: the sum over the phases.
      max_seq_length: T of the longest phase.
      max_predictions_per_seq: P of that phase.
    """

    phases: tuple[ResolvedPhase, ...] = field(kw_only=True)
    num_train_steps: int = field(kw_only=True)
    max_seq_length: int = field(kw_only=True)
    max_predictions_per_seq: int = field(kw_only=True)
    learning_rate: float = field(kw_only=True)


def given_phases(settings: PretrainingSettings) -> list[Phase]:
    """The phases that the flags give: those of --phase, or the whole run as one.

    Raises:
      InputError: there is neither --phase nor --input_file, or flags that exclude each other.
    """
    if settings.phase:
        if both := [name for name in _OF_A_PHASE if getattr(settings, name) is not None]:
            flags = ", ".join(f"--{name}" for name in both)
            raise InputError(
                f"--phase excludes {flags}, because every phase has its own. Received both; omit {flags}."
            )
        return [parse_phase(text, settings.train_batch_size) for text in settings.phase]
    if settings.input_file is None:
        raise InputError(
            "A run needs --input_file, the TFRecord files to train on, or --phase for each of several lengths. "
            "Received neither."
        )
    return [
        Phase(
            settings.input_file,
            settings.num_train_steps or _PAPER_STEPS,
            settings.train_batch_size,
            settings.eval_file,
            settings.max_seq_length,
            settings.max_predictions_per_seq,
        )
    ]


def with_defaults(
    settings: PretrainingSettings, phases: Sequence[ResolvedPhase]
) -> ResolvedPretrainingSettings:
    """The settings of a run with these phases, and the default learning rate unless the flags give another."""
    if settings.early_stopping_patience and not (settings.do_eval and phases[-1].eval_file):
        raise InputError(
            "--early_stopping_patience needs evaluations of the last phase: --do_eval and its eval_file (without "
            "--phase, --eval_file). Received it without; add both."
        )
    longest = max(phases, key=lambda phase: phase.max_seq_length)
    return ResolvedPretrainingSettings(
        **{
            **dataclasses.asdict(settings),
            "phases": tuple(phases),
            "num_train_steps": phases[-1].end_step,
            "max_seq_length": longest.max_seq_length,
            "max_predictions_per_seq": longest.max_predictions_per_seq,
            "learning_rate": settings.learning_rate or default_learning_rate(settings.optimizer, phases[0]),
        }
    )


# (rate, batch that it was published for, source): the paper, section 4.1; Devlin et al. 2019, appendix A.2.
PUBLISHED_RATES = {"lamb": (0.00176, 4096, "the paper's"), "adamw": (0.0001, 256, "BERT's")}


def default_learning_rate(optimizer: str, first: Phase) -> float:
    """The published rate of the optimizer, scaled by the square root of the batch of the first phase."""
    rate, batch, _ = PUBLISHED_RATES[optimizer]
    return float(f"{rate * math.sqrt(first.train_batch_size / batch):.3g}")
