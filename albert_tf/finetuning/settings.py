"""The flags of fine-tuning, with the original's names if it has them."""

from dataclasses import dataclass
from typing import Literal

from albert_tf.config import Remat
from albert_tf.training.cluster import check_devices
from albert_tf.training.positions import ResizePositions
from data_prep.errors import InputError, check_at_least
from data_prep.tasks.columns import LABEL_SEPARATOR, Columns


@dataclass(frozen=True)
class FinetuningSettings:
    """The flags of one fine-tuning run.

    Attributes:
      task: cola, sst-2, mrpc, sts-b, qqp, mnli, qnli, rte, wnli, ax, squad1.1, squad2.0 or race; for your own data
        classification, ordinal-classification, multi-label-classification, regression, multiple-choice,
        question-answering or token-classification.
      output_dir: the run's folder; an interrupted run in it resumes.
      data_dir: the task's folder as downloaded, or tfds:NAME.
      train_file: your own data to train on, or a file of the task under another name.
      dev_file: likewise, to evaluate on.
      test_file: likewise, to predict.
      high_only: of RACE, only the passages from high schools.
      middle_only: of RACE, only the passages from middle schools.
      column_names: your columns, if their names differ, for example "text_a=review,label=stars"; known columns are
        text_a, text_b, label, id, passage, question, options, context, answer, answer_start, words, word_labels.
      label_separator: what separates the labels of a text in multi-label classification, unless they are a list.
      label_order: with ordinal-classification, the classes from the lowest to the highest unless they are numbers,
        for example "bad,fair,good".
      init_checkpoint: the pretrained encoder: a run, a checkpoint, a name that `albert models` lists, or anything
        else that `albert convert` reads; also a fine-tuned run, as the paper starts RTE, MRPC and STS-B from MNLI.
      albert_config_file: the checkpoint's albert_config.json, if it does not lie beside a TF1 checkpoint; without
        --init_checkpoint, the model to train from scratch.
      vocab_file: the SentencePiece model or WordPiece vocab.txt, if the checkpoint comes without one.
      do_lower_case: --nodo_lower_case for a cased --vocab_file. Default: as the file beside it says, else true.
      do_train: train; with --do_eval keep the weights that are best on the dev set, otherwise the last ones.
      do_eval: evaluate on the dev set, during training and at its end.
      do_predict: write predictions for the test set, and its submission file.
      seed: determines the head's initial weights, the order of examples and dropout.
      seeds: number of runs, with consecutive seeds from --seed; a table shows their median, minimum and maximum.
      train_batch_size: examples per step, over all devices. Default of this flag and of the next ones, up to
        --max_seq_length: the task's recipe in the paper's Table 14.
      optimizer: adamw or lamb.
      learning_rate: the peak. The recipes' are for adamw.
      num_train_steps: steps of the whole run.
      num_train_epochs: passes over the training data, instead of --num_train_steps.
      num_warmup_steps: steps of linear warm-up. Default: the same share of all steps as in the recipe.
      dropout: of the encoder, on hidden vectors and attention probabilities.
      classifier_dropout: on the input of the task's head.
      freeze_encoder: train only the task's head; the encoder stays as it is, without dropout.
      lora_rank: train only low-rank matrices beside the encoder's, of this rank, and the head. model.keras has the
        merged weights, adapters.safetensors what was trained alone.
      init_adapters: with --lora_rank, start from the adapters.safetensors of a run of the same --init_checkpoint.
      layer_decay: factor of the learning rate for every step down from the head: through the different layers, or
        groups, to the embeddings. A model that shares all layers has two steps: layers, embeddings.
      ema_decay: evaluate and save the exponential moving averages of the weights, of which each step keeps this
        share, for example 0.999.
      max_seq_length: tokens; longer texts are truncated, longer contexts of questions become several windows.
      resize_positions: allow a --max_seq_length beyond the checkpoint's position table. Without a value, or with
        tile, its rows are repeated; with fresh, new rows start from random values.
      doc_stride: tokens between the starts of successive windows of a long context.
      max_query_length: tokens; longer questions are truncated.
      max_qa_length: tokens of a question with an option, in multiple choice; longer ones lose their beginning.
      max_answer_length: tokens of the longest answer.
      n_best_size: answers to each question in nbest_predictions.json.
      start_n_top: with SQuAD 2.0, the starts that are searched for the best answer.
      end_n_top: with SQuAD 2.0, the ends that are searched for each of these starts.
      class_weights: how much each class counts in the training loss. balanced: every class as much as every other,
        however many examples it has. Or numbers such as "rare:5,common:0.5"; 1 for classes that it does not name.
      cache_dir: a folder that keeps windows of questions and passages of multiple choice for the next run.
      eval_batch_size: examples per step of evaluation and prediction.
      pad_to_max_length: pad all batches to one length, as the original does, instead of grouping similar lengths.
      save_checkpoints_steps: steps between checkpoints and evaluations. Default: a twentieth of the run, at most
        1000.
      log_steps: steps between lines in metrics.jsonl. Default: a hundredth of the run, at most 100.
      early_stopping_patience: stop after this many evaluations in a row without a new best.
      strict: treat unusable rows as an error, not as a warning.
      gradient_accumulation_steps: micro-batches into which each device cuts its share of a batch; the result is
        the same and takes less memory.
      remat: recompute activations in the backward pass instead of keeping them. activations: only attention
        probabilities and gelu, a few percent slower. layers, or the flag without a value: everything inside each
        layer, least memory, about a third slower.
      scan_layers: compute layers that share their parameters as a loop. The graph is smaller, so training starts
        sooner.
      mixed_precision: bfloat16 computes in bfloat16; weights, losses and optimizer stay in float32.
      tpu: a TPU's name, its grpc:// address, or "local"; batches are then padded to --max_seq_length.
      strategy: one device; all GPUs of this machine (mirrored); or one process on each of several machines,
        which TF_CONFIG lists and which share --output_dir (multi_worker). auto uses what is available.
      num_devices: number of GPUs to use, or without GPUs the number of devices to divide the CPU into. Default:
        all GPUs, or one.
      iterations_per_loop: steps between checks for signals and updates of the progress bar. Default: as many as
        take about 2 seconds; 10 with several workers.
    """

    task: str
    output_dir: str
    data_dir: str | None = None
    train_file: str | None = None
    dev_file: str | None = None
    test_file: str | None = None
    high_only: bool = False
    middle_only: bool = False
    column_names: str = ""
    label_separator: str = LABEL_SEPARATOR
    label_order: str = ""
    init_checkpoint: str | None = None
    albert_config_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    do_train: bool = False
    do_eval: bool = False
    do_predict: bool = False
    seed: int = 0
    seeds: int = 1
    train_batch_size: int | None = None
    optimizer: Literal["adamw", "lamb"] = "adamw"
    learning_rate: float | None = None
    num_train_steps: int | None = None
    num_train_epochs: float | None = None
    num_warmup_steps: int | None = None
    dropout: float | None = None
    classifier_dropout: float | None = None
    freeze_encoder: bool = False
    lora_rank: int | None = None
    init_adapters: str | None = None
    layer_decay: float = 1.0
    ema_decay: float | None = None
    max_seq_length: int | None = None
    resize_positions: ResizePositions = False
    doc_stride: int = 128
    max_query_length: int = 64
    max_qa_length: int = 128
    max_answer_length: int = 30
    n_best_size: int = 20
    start_n_top: int = 5
    end_n_top: int = 5
    class_weights: str | None = None
    cache_dir: str | None = None
    eval_batch_size: int = 64
    pad_to_max_length: bool = False
    save_checkpoints_steps: int | None = None
    log_steps: int | None = None
    early_stopping_patience: int | None = None
    strict: bool = False
    gradient_accumulation_steps: int = 1
    remat: Remat = False
    scan_layers: bool = False
    mixed_precision: Literal["bfloat16"] | None = None
    tpu: str | None = None
    strategy: Literal["auto", "one", "mirrored", "multi_worker"] = "auto"
    num_devices: int | None = None
    iterations_per_loop: int | None = None

    @property
    def columns(self) -> Columns:
        """`column_names` and `label_separator` as the readers take them."""
        return Columns.named(self.column_names, self.label_separator)

    @property
    def school(self) -> str:
        """Whose passages of RACE to read: "high", "middle", or "" for both."""
        return "high" if self.high_only else "middle" if self.middle_only else ""

    def __post_init__(self):
        if not (self.do_train or self.do_eval or self.do_predict):
            raise InputError(
                "At least one of --do_train, --do_eval and --do_predict must be given. Received none."
            )
        if self.do_train and not (self.init_checkpoint or self.albert_config_file):
            raise InputError(
                "--do_train needs --init_checkpoint, the pretrained model to start from: a run's folder, a name "
                "that `albert models` lists, or anything else that `albert convert` reads; or to train from "
                "scratch, --albert_config_file and --vocab_file. Received none."
            )
        self._check_data()
        self._check_numbers()
        if self.num_train_steps is not None and self.num_train_epochs is not None:
            raise InputError(
                "--num_train_steps and --num_train_epochs exclude each other. Received "
                f"{self.num_train_steps} and {self.num_train_epochs:g}; leave one out."
            )
        if self.freeze_encoder and self.lora_rank:
            raise InputError(
                "--freeze_encoder and --lora_rank exclude each other. Received both; --lora_rank alone trains the "
                "head, too."
            )
        if self.init_adapters and not self.lora_rank:
            raise InputError("--init_adapters needs --lora_rank, the rank that they have. Received none.")
        if self.early_stopping_patience is not None and not self.do_eval:
            raise InputError("--early_stopping_patience needs --do_eval. Received it without; add --do_eval.")
        check_devices(self)

    def _check_data(self):
        assert self.columns  # raises InputError
        if self.high_only and self.middle_only:
            raise InputError(
                "--high_only and --middle_only exclude each other. Received both; leave both out."
            )
        if self.school and self.task.lower() != "race":
            raise InputError(f"--{self.school}_only needs --task=race. Received --task={self.task}.")
        if self.label_order and self.task != "ordinal-classification":
            raise InputError(
                f"--label_order needs --task=ordinal-classification. Received --task={self.task}; leave it out."
            )
        if not self.label_separator:
            raise InputError("--label_separator must not be empty. Received ''.")
        for role, flag in (("train", "do_train"), ("dev", "do_eval"), ("test", "do_predict")):
            if getattr(self, flag) and not getattr(self, f"{role}_file") and not self.data_dir:
                raise InputError(
                    f"--{flag} needs data: --data_dir, the task's folder, or --{role}_file. Received neither."
                )

    def _check_numbers(self):
        check_at_least(0, self, "seed", "num_warmup_steps")
        check_at_least(
            1,
            self,
            "seeds",
            "train_batch_size",
            "num_train_steps",
            "lora_rank",
            "max_seq_length",
            "doc_stride",
            "max_query_length",
            "max_qa_length",
            "max_answer_length",
            "n_best_size",
            "start_n_top",
            "end_n_top",
            "eval_batch_size",
            "save_checkpoints_steps",
            "log_steps",
            "early_stopping_patience",
            "gradient_accumulation_steps",
            "num_devices",
            "iterations_per_loop",
        )
        if self.do_train and self.optimizer == "lamb" and self.learning_rate is None:
            raise InputError(
                "--optimizer=lamb needs --learning_rate, since the recipes' rates are for adamw. Received none; "
                "0.0003 to 0.0005 are usual for batches of 64."
            )
        for name in ("learning_rate", "num_train_epochs"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"--{name} must be a number above 0. Received {value}.")
        if not 0 < self.layer_decay <= 1:
            raise InputError(f"--layer_decay must be above 0 and at most 1. Received {self.layer_decay}.")
        for name in ("dropout", "classifier_dropout", "ema_decay"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(f"--{name} must be at least 0 and below 1. Received {value}.")


# A run can only resume with the values of these flags that it started with.
FIXED = (
    "task",
    "data_dir",
    "train_file",
    "high_only",
    "middle_only",
    "column_names",
    "label_separator",
    "label_order",
    "init_checkpoint",
    "albert_config_file",
    "vocab_file",
    "do_lower_case",
    "seed",
    "train_batch_size",
    "optimizer",
    "learning_rate",
    "num_train_steps",
    "num_warmup_steps",
    "dropout",
    "classifier_dropout",
    "max_seq_length",
    "resize_positions",
    "doc_stride",
    "max_query_length",
    "max_qa_length",
    "start_n_top",
    "end_n_top",
    "class_weights",
    "freeze_encoder",
    "lora_rank",
    "init_adapters",
    "layer_decay",
    "ema_decay",
    "save_checkpoints_steps",
    "pad_to_max_length",
    "mixed_precision",
)
