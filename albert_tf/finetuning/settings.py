"""The flags of fine-tuning, under the original's names where it has them."""

from dataclasses import dataclass
from typing import Literal

from albert_tf.training.cluster import other_than_one_machine
from data_prep.errors import InputError
from data_prep.tasks.columns import Columns


@dataclass(frozen=True)
class FinetuningSettings:
    """Everything that fine-tuning on one task is told.

    Attributes:
      task: cola, sst-2, mrpc, sts-b, qqp, mnli, qnli, rte, wnli, ax, squad1.1, squad2.0 or race; or for own data
        classification, regression, multiple-choice, question-answering or token-classification.
      output_dir: the folder of the run; what is found there of an interrupted run goes on.
      data_dir: the task's folder as downloaded, or tfds:NAME.
      train_file: own data to train on, or a file of the task under another name.
      dev_file: likewise to evaluate on.
      test_file: likewise to predict.
      column_names: of own data under unusual names, for instance "text_a=review,label=stars"; the columns are
        text_a, text_b, label, id, passage, question, options, context, answer, answer_start, words, word_labels.
      init_checkpoint: what to take the encoder from: a run, a checkpoint, or anything that `albert convert` reads;
        also a fine-tuned run, as the paper starts RTE, MRPC and STS-B from MNLI.
      vocab_file: the SentencePiece model or WordPiece vocab.txt, where the checkpoint comes without its own.
      do_lower_case: of --vocab_file; --nodo_lower_case for a cased vocabulary.
      do_train: train; with --do_eval the best weights on the dev set are kept, else the last ones.
      do_eval: evaluate on the dev set, while training and at its end.
      do_predict: write predictions of the test set, and its submission file.
      seed: seeds the head's initial weights, order of examples and dropout.
      seeds: so many runs, with the seeds from --seed on; a table has their median, minimum and maximum.
      train_batch_size: examples a step, over all devices. Default, as of what follows: the paper's Table 14 for
        this task.
      learning_rate: the peak.
      num_train_steps: steps of the whole run.
      num_train_epochs: passes through the training data, in place of --num_train_steps.
      num_warmup_steps: steps of linear warm-up. Default: the same share of all steps as in the recipe.
      dropout: of the encoder, on hidden vectors and attention probabilities.
      classifier_dropout: on what the task's head reads.
      max_seq_length: longer inputs are cut; contexts of questions slide instead.
      resize_positions: for a longer --max_seq_length than the checkpoint was trained for; further rows of its
        position table begin as chance has them.
      doc_stride: how far windows of a long context are apart, in tokens.
      max_query_length: tokens of a question that are read.
      max_answer_length: tokens of the longest answer.
      cache_dir: a folder to keep windows of questions and passages of multiple choice in, for the next run.
      eval_batch_size: examples a step of evaluation and prediction.
      pad_to_max_length: fixed padding, as the original has it, in place of batches of similar lengths.
      save_checkpoints_steps: steps between checkpoints, and evaluations. Default: a twentieth of the run, at most
        1000.
      log_steps: steps between lines in metrics.jsonl. Default: a hundredth of the run, at most 100.
      early_stopping_patience: stop after so many evaluations in a row that are no better than the best.
      strict: take rows that cannot be used for an error, in place of a warning.
      mixed_precision: bfloat16 computes in bfloat16; weights, losses and optimizer stay in float32.
      strategy: one device, or all GPUs of this machine (mirrored). auto takes what there is.
      num_devices: so many GPUs, or without GPUs so many devices made of the CPU.
    """

    task: str
    output_dir: str
    data_dir: str | None = None
    train_file: str | None = None
    dev_file: str | None = None
    test_file: str | None = None
    column_names: str = ""
    init_checkpoint: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool = True
    do_train: bool = False
    do_eval: bool = False
    do_predict: bool = False
    seed: int = 0
    seeds: int = 1
    train_batch_size: int | None = None
    learning_rate: float | None = None
    num_train_steps: int | None = None
    num_train_epochs: float | None = None
    num_warmup_steps: int | None = None
    dropout: float | None = None
    classifier_dropout: float | None = None
    max_seq_length: int | None = None
    resize_positions: bool = False
    doc_stride: int = 128
    max_query_length: int = 64
    max_answer_length: int = 30
    cache_dir: str | None = None
    eval_batch_size: int = 64
    pad_to_max_length: bool = False
    save_checkpoints_steps: int | None = None
    log_steps: int | None = None
    early_stopping_patience: int | None = None
    strict: bool = False
    mixed_precision: Literal["bfloat16"] | None = None
    strategy: Literal["auto", "one", "mirrored"] = "auto"
    num_devices: int | None = None

    @property
    def tpu(self) -> None:
        """Keras `fit` does not work under TPUStrategy."""
        return

    @property
    def columns(self) -> Columns:
        """`column_names` as the readers take them."""
        return Columns.named(self.column_names)

    def __post_init__(self):
        if not (self.do_train or self.do_eval or self.do_predict):
            raise InputError(
                "At least one of --do_train, --do_eval and --do_predict must be given. Received none."
            )
        if self.do_train and not self.init_checkpoint:
            raise InputError(
                "--do_train needs --init_checkpoint, the pretrained model to start from: a run's folder, or "
                "anything that `albert convert` reads. Received none."
            )
        self._check_data()
        self._check_numbers()
        if self.num_train_steps is not None and self.num_train_epochs is not None:
            raise InputError(
                "--num_train_steps and --num_train_epochs are two ways to say how long to train. Received "
                f"{self.num_train_steps} and {self.num_train_epochs:g}; leave one out."
            )
        if self.early_stopping_patience is not None and not self.do_eval:
            raise InputError(
                "--early_stopping_patience is about evaluations. Received it without --do_eval; add that."
            )
        if self.num_devices and self.strategy == "one":
            raise other_than_one_machine(self.num_devices, "--strategy=one")

    def _check_data(self):
        assert self.columns  # or InputError
        for flag, file in (
            ("do_train", self.train_file),
            ("do_eval", self.dev_file),
            ("do_predict", self.test_file),
        ):
            if getattr(self, flag) and not file and not self.data_dir:
                name = {"do_train": "train", "do_eval": "dev", "do_predict": "test"}[flag]
                raise InputError(
                    f"--{flag} needs data: --data_dir, the task's folder, or --{name}_file. Received neither."
                )

    def _check_numbers(self):
        for name in (
            "seeds",
            "train_batch_size",
            "num_train_steps",
            "max_seq_length",
            "doc_stride",
            "max_query_length",
            "max_answer_length",
            "eval_batch_size",
            "save_checkpoints_steps",
            "log_steps",
            "early_stopping_patience",
            "num_devices",
        ):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(f"--{name} must be at least 1. Received {getattr(self, name)}.")
        if self.num_warmup_steps is not None and self.num_warmup_steps < 0:
            raise InputError(f"--num_warmup_steps must be at least 0. Received {self.num_warmup_steps}.")
        if self.seed < 0:
            raise InputError(f"--seed must be at least 0. Received {self.seed}.")
        for name in ("learning_rate", "num_train_epochs"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"--{name} must be a number above 0. Received {value}.")
        for name in ("dropout", "classifier_dropout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(f"--{name} must be at least 0 and below 1. Received {value}.")


# Changing one of these in the middle of a run would make it another run.
FIXED = (
    "task",
    "data_dir",
    "train_file",
    "column_names",
    "init_checkpoint",
    "vocab_file",
    "do_lower_case",
    "seed",
    "train_batch_size",
    "learning_rate",
    "num_train_steps",
    "num_warmup_steps",
    "dropout",
    "classifier_dropout",
    "max_seq_length",
    "resize_positions",
    "doc_stride",
    "max_query_length",
    "save_checkpoints_steps",
    "pad_to_max_length",
    "mixed_precision",
)
