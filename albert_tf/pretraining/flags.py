"""The flags of pretraining, under the original's names."""

from dataclasses import dataclass
from typing import Literal

from albert_tf.config import ResizePositions
from albert_tf.training.device_flags import DeviceFlags, Tracker
from data_prep.errors import InputError, check_at_least


@dataclass(frozen=True)
class PretrainingFlags(DeviceFlags):
    """The flags of a pretraining run.

    Attributes:
      output_dir: folder of the run, or its address in an object store, for example s3://bucket/run; if it holds an
        interrupted run, the command resumes it from its last checkpoint.
      albert_config_file: configuration with the model's sizes, an albert_config.json. Default: that of the run in
        --output_dir, or of --init_checkpoint.
      input_file: TFRecord files to train on, from `albert prepare`; globs and commas are allowed. Evaluation alone
        does not need them.
      input_weights: weights of the patterns of --input_file, separated by commas. With 3,1 three quarters of the
        examples come from files of the first pattern.
      input_exponent: weights in place of --input_weights: each pattern's number of examples to this power, from 1
        (the share that it has in the files) to 0 (equal shares).
      eval_file: TFRecord files to evaluate on, prepared from documents that are not in --input_file; globs and
        commas are allowed.
      old_eval_file: TFRecord files of held-out text like that which --init_checkpoint was trained on, to see what
        the model forgets: every evaluation logs its loss as eval_old_loss, which decides nothing.
      phase: one phase of a run that trains on several sequence lengths; give the flag once per phase, short
        sequences first, in place of --input_file, --eval_file and --num_train_steps. For example:
        --phase='input_file=data32/train.tfrecord* eval_file=data32/heldout.tfrecord num_train_steps=4000
        train_batch_size=64'. eval_file is optional, as are input_weights and input_exponent, and train_batch_size
        defaults to the flag of this name.
      spm_model_file: SentencePiece model or WordPiece vocab.txt that the examples were prepared with; it is
        copied to the run for export. Default: the vocabulary that the examples' manifest.json names, if it still
        exists.
      init_checkpoint: source of the initial weights: a pretraining run or one of its checkpoints, a name from
        `albert models`, or any other source that `albert convert` reads. Default: random weights.
      do_train: train the model.
      do_eval: evaluate on --eval_file at every checkpoint and at the end.
      train_batch_size: number of examples per step, over all devices.
      eval_batch_size: number of examples per batch of evaluation.
      max_seq_length: length of the examples in tokens, T. Default: read from the files.
      max_predictions_per_seq: maximum number of masked tokens in an example, P. Default: read from the files.
      optimizer: "lamb" suits large batches, as in the paper; "adamw" suits batches of a few hundred examples or
        fewer.
      learning_rate: peak learning rate, reached at the end of the warm-up. Default: the paper's 0.00176 for lamb
        and BERT's 0.0001 for adamw, scaled by the square root of the batch (the first phase's) over that of the
        publication, 4096 or 256.
      poly_power: power of the learning rate's polynomial decay to 0; 1 is linear, and below 1 the rate stays
        high for longer.
      num_train_steps: number of training steps in the whole run. Default: the paper's 125,000.
      num_warmup_steps: number of steps during which the learning rate rises linearly to its peak. Default: the
        paper's 3,125, but at most a tenth of the run.
      num_decay_steps: number of steps at the end of the run during which the learning rate falls to 0. Until then
        it stays at its peak, and the checkpoint of the last such step is always kept: a longer run can go on from
        it, with --init_checkpoint and --init_optimizer. Default: all steps, as in the paper.
      start_warmup_step: step at which the warm-up begins; set it in a run that continues another at a new
        learning rate.
      save_checkpoints_steps: number of steps between checkpoints.
      keep_checkpoint_max: number of checkpoints to keep.
      max_eval_steps: maximum number of batches per evaluation.
      log_steps: number of steps between lines in metrics.jsonl; every checkpoint adds a line, too.
      log_to: experiment tracker that gets a copy of metrics.jsonl and the settings; its own environment variables
        say where it is, such as MLFLOW_TRACKING_URI.
      seed: seed of the initial weights, the order of examples and dropout.
      jit_compile: compile the training step with XLA. "auto" compiles on GPUs, where it is faster, and not on
        CPUs; TPUs and JAX always compile.
      spike_factor: a logged loss above this factor times the median of the last 20 good ones counts as a spike.
      spike_intervals: number of logged spikes in a row after which the run rolls back to the weights of the last
        good checkpoint.
      max_rollbacks: maximum number of rollbacks; after one more spike the run stops and prints advice.
      early_stopping_patience: stop after this many evaluations in a row without a new best result; in a run with
        several phases, only evaluations of the last phase count. Default: train to the end.
      init_optimizer: also restore the optimizer's moments and step count from --init_checkpoint.
      init_from_group0: initialize layer groups that --init_checkpoint lacks with copies of its first group.
      resize_positions: accept an --init_checkpoint whose position table has another length. A shorter table
        keeps the first rows. A longer one repeats the rows, and their moments ("tile", or the flag without a
        value), or adds random rows ("fresh").
    """

    output_dir: str
    albert_config_file: str | None = None
    input_file: str | None = None
    input_weights: str | None = None
    input_exponent: float | None = None
    eval_file: str | None = None
    old_eval_file: str | None = None
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
    num_warmup_steps: int | None = None
    num_decay_steps: int | None = None
    start_warmup_step: int = 0
    save_checkpoints_steps: int = 5000
    keep_checkpoint_max: int = 5
    max_eval_steps: int = 100
    log_steps: int = 100
    log_to: Tracker | None = None
    seed: int = 12345
    jit_compile: Literal["auto", "on", "off"] = "auto"
    spike_factor: float = 1.3
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
        self.check_devices()
        if self.uses_jax and self.jit_compile == "off":
            raise InputError(
                "--jit_compile=off is for --backend=tensorflow, since JAX compiles every step. Received it with "
                "--backend=jax; omit it."
            )
        if not self.spike_factor > 1:
            raise InputError(f"--spike_factor must be above 1. Received {self.spike_factor}.")
        if not -(1 << 63) <= self.seed < 1 << 63:
            bits = self.seed.bit_length()
            raise InputError(f"--seed must fit into 64 bits. Received an integer of {bits} bits.")
        self._check_initialization()

    def _check_initialization(self):
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
    "num_decay_steps",
    "save_checkpoints_steps",
    "keep_checkpoint_max",
    "max_eval_steps",
    "log_steps",
    "spike_intervals",
    "early_stopping_patience",
)
