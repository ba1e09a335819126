"""The flags of pretraining, under the original's names."""

from dataclasses import dataclass
from typing import Literal

from albert_tf.model.remat import Remat
from albert_tf.training.cluster import other_than_one_machine
from data_prep.errors import InputError


@dataclass(frozen=True)
class PretrainingSettings:
    """Everything that one pretraining run is told.

    Attributes:
      input_file: TFRecord files to train on; commas and globs.
      albert_config_file: the model's albert_config.json.
      output_dir: the run's folder; a run that is found there goes on from its last checkpoint.
      eval_file: TFRecord files to evaluate on, of documents that are not trained on; commas and globs.
      spm_model_file: the vocabulary that the files were made with, or a WordPiece vocab.txt, kept with the run for
        export. Default: what their manifest.json names, if it is still there.
      init_checkpoint: what to take the initial weights from: a run, a checkpoint, or anything that
        `albert convert` reads.
      do_train: train.
      do_eval: evaluate at every checkpoint and at the end.
      train_batch_size: examples a step, over all devices.
      eval_batch_size: examples a step of evaluation.
      max_seq_length: T of the files; default: read from them.
      max_predictions_per_seq: P of the files; default: read from them.
      optimizer: lamb or adamw.
      learning_rate: the peak. Default: with lamb the paper's 0.00176, with adamw BERT's 0.0001, times the
        square root of --train_batch_size / 4096 or / 256, the batches that those are for.
      poly_power: power of the polynomial decay.
      num_train_steps: steps of the whole run.
      num_warmup_steps: steps of linear warm-up.
      save_checkpoints_steps: steps between checkpoints.
      keep_checkpoint_max: checkpoints to keep.
      max_eval_steps: at most so many batches an evaluation.
      log_steps: steps between lines in metrics.jsonl, which has one for each checkpoint too.
      seed: seeds initial weights, order of examples and dropout.
      tpu: a TPU's name, grpc:// address or "local".
      strategy: one device; all GPUs of this machine (mirrored); or one process on each of several machines,
        which TF_CONFIG names and which share --output_dir (multi_worker). auto takes what there is.
      num_devices: so many GPUs, or without GPUs so many devices made of the CPU. Default: all GPUs, or one.
      gradient_accumulation_steps: parts that each device takes its share of a batch in, one after the other;
        the result is the same from less memory.
      iterations_per_loop: steps between looks at signals and the progress bar. Default: as many as take about
        2 seconds; 10 with several workers.
      remat: compute again in the backward pass instead of keeping it. activations: attention probabilities and
        gelu, a few percent more time. layers, or nothing after the flag: all inside each layer, least memory,
        about a third more time.
      scan_layers: compile layers that share their parameters once, as a loop: XLA, so TPUs, start many times
        sooner.
      mixed_precision: bfloat16 computes in bfloat16; weights, losses, LayerNorm and optimizer stay in float32.
      jit_compile: compile the step with XLA. auto: on GPUs. TPUs always do.
      spike_factor: a logged loss above so many times the usual one (the median of the last 20) is a spike.
      spike_intervals: after so many logged spikes in a row the last good checkpoint's weights are taken back.
      max_rollbacks: how often, before the run stops with advice.
      init_optimizer: with --init_checkpoint, also go on with its optimizer's moments and count of steps.
      resize_positions: with --init_checkpoint, take what fits of a position table of another length.
      measure_peak: where the peak FLOPs of the devices are not known, as of CPUs, measure them once a run.
    """

    input_file: str
    albert_config_file: str
    output_dir: str
    eval_file: str | None = None
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
    num_train_steps: int = 125000
    num_warmup_steps: int = 3125
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
    init_optimizer: bool = False
    resize_positions: bool = False
    measure_peak: bool = False

    def __post_init__(self):
        if not self.do_train and not self.do_eval:
            raise InputError("At least one of --do_train and --do_eval must be given. Received neither.")
        if self.do_eval and not self.do_train and not self.eval_file:
            raise InputError(
                "--do_eval needs --eval_file: evaluation never reads the training files. Prepare examples of "
                "held-out documents with `albert prepare` and name them."
            )
        for name in (
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
        ):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(f"--{name} must be at least 1. Received {getattr(self, name)}.")
        if self.num_warmup_steps < 0:
            raise InputError(f"--num_warmup_steps must be at least 0. Received {self.num_warmup_steps}.")
        for name in ("learning_rate", "poly_power"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"--{name} must be a number above 0. Received {value}.")
        self._check_devices()
        self._check_survival()

    def _check_devices(self):
        if self.tpu and self.strategy != "auto":
            raise InputError(
                f"--tpu and --strategy are two ways to choose devices. Received {self.tpu} and {self.strategy}; "
                "leave one out."
            )
        if self.num_devices and (self.tpu or self.strategy in ("one", "multi_worker")):
            other = f"--tpu={self.tpu}" if self.tpu else f"--strategy={self.strategy}"
            raise other_than_one_machine(self.num_devices, other)

    def _check_survival(self):
        if not self.spike_factor > 1:
            raise InputError(f"--spike_factor must be above 1. Received {self.spike_factor}.")
        if self.spike_intervals < 1 or self.max_rollbacks < 0:
            raise InputError(
                "--spike_intervals must be at least 1 and --max_rollbacks at least 0. "
                f"Received {self.spike_intervals} and {self.max_rollbacks}."
            )
        for name in ("init_optimizer", "resize_positions"):
            if getattr(self, name) and not self.init_checkpoint:
                raise InputError(
                    f"--{name} is about --init_checkpoint. Received it without; name a checkpoint."
                )


# Changing one of these in the middle of a run would make it another run: other data order, other mathematics.
FIXED = (
    "input_file",
    "train_batch_size",
    "max_seq_length",
    "max_predictions_per_seq",
    "optimizer",
    "seed",
)
