"""The flags of fine-tuning, with the original's names if it has them."""

from dataclasses import dataclass, replace
from typing import Literal

from albert_tf.checkpoints.sources import names_in
from albert_tf.config import ResizePositions
from albert_tf.tasks.columns import LABEL_SEPARATOR, Columns
from albert_tf.training.device_flags import DeviceFlags, Tracker
from data_prep.errors import InputError, check_at_least
from data_prep.files import check_local

# A run can only resume with the values of these flags that it started with.
FIXED = (
    "task data_dir train_file high_only middle_only column_names label_separator label_order "
    "init_checkpoint albert_config_file vocab_file do_lower_case seed train_batch_size optimizer "
    "learning_rate num_train_steps num_warmup_steps dropout classifier_dropout max_seq_length "
    "resize_positions doc_stride max_query_length max_qa_length start_n_top end_n_top class_weights "
    "freeze_encoder lora_rank init_adapters layer_decay ema_decay save_checkpoints_steps "
    "pooling vector_size normalize temperature symmetric dropout_pairs pad_to_max_length mixed_precision"
)
_AT_LEAST_ONE = (
    "seeds train_batch_size num_train_steps lora_rank max_seq_length doc_stride max_query_length "
    "max_qa_length max_answer_length n_best_size start_n_top end_n_top eval_batch_size "
    "search_steps save_checkpoints_steps log_steps early_stopping_patience vector_size"
)


@dataclass(frozen=True)
class FinetuningFlags(DeviceFlags):
    """The flags of one fine-tuning run.

    Attributes:
      task: task of the paper: cola, sst-2, mrpc, sts-b, qqp, mnli, qnli, rte, wnli, ax, squad1.1, squad2.0 or
        race; or for your own data: classification, ordinal-classification, multi-label-classification,
        regression, multiple-choice, question-answering, token-classification or embedding. squad2.0 also takes
        questions of your own, some of which have no answer.
      output_dir: folder of the run, or its address in an object store, for example s3://bucket/run; if it holds an
        interrupted run, the command resumes it from its last checkpoint.
      data_dir: folder of the task as downloaded, or tfds:NAME for a TensorFlow dataset.
      train_file: file with your own training data, or the task's training file if it has another name.
      dev_file: file with your own data to evaluate on, or the task's dev file if it has another name; for
        --do_eval.
      test_file: file with your own data to predict, or the task's test file if it has another name; for
        --do_predict.
      high_only: use only RACE's high-school passages.
      middle_only: use only RACE's middle-school passages.
      column_names: names of your columns if they differ from the known ones, for example
        "text_a=review,label=stars". Known columns: text_a, text_b, label, id, passage, question, options,
        context, answer, answer_start, words, word_labels, anchor, positive and negatives.
      label_separator: separator between the labels of a text in multi-label classification, unless the labels
        are a list.
      label_order: classes of an ordinal classification from lowest to highest, for example "bad,fair,good".
        Default: the order of numbers, if the classes are numbers.
      init_checkpoint: source of the pretrained encoder: a pretraining run or one of its checkpoints, a name from
        `albert models`, or any other source that `albert convert` reads. It may also be a fine-tuned run: the
        paper starts RTE, MRPC and STS-B from MNLI.
      albert_config_file: the model's albert_config.json, if it is not beside a TF1 checkpoint. Without
        --init_checkpoint, a new model of these sizes is trained from scratch.
      vocab_file: SentencePiece model or WordPiece vocab.txt, if the model comes without a vocabulary; or a longer
        one that begins with its pieces, for which the model gets new embeddings.
      do_lower_case: --nodo_lower_case declares a cased vocabulary. Default: what the settings file beside the
        vocabulary says, or lower case without one.
      do_train: train the model; with --do_eval the weights with the best result on the dev set are kept,
        otherwise the last ones.
      do_eval: evaluate on the dev set, during training and at the end.
      do_predict: write predictions for the test set and, if the task has a leaderboard, its submission file.
      seed: seed of the head's initial weights, the order of examples and dropout.
      seeds: number of runs with consecutive seeds, starting at --seed; a table shows their median, minimum and
        maximum.
      train_batch_size: number of examples per step, over all devices. Default: the task's recipe in the paper's
        Table 14, or 32 for your own data.
      optimizer: "adamw", for which the recipes' learning rates were chosen, or "lamb", which needs
        --learning_rate.
      learning_rate: peak learning rate, reached at the end of the warm-up. Default: the task's recipe in the
        paper's Table 14, or 2e-5 for your own data; ten times as much for encoders with a hidden size below 512.
        "search" tries rates from an eighth to 4 times as high on the dev set, and trains with the best.
      search_steps: number of training steps that --learning_rate=search may take, over all rates. Default: twice
        --num_train_steps.
      restarts: number of times that a failed seed begins again, each time at half the learning rate. A seed has
        failed if its predictions are nearly all the same or its loss is that of a guess.
      num_train_steps: number of training steps in the whole run. Default: the task's recipe in the paper's Table
        14, or 3 epochs for your own data.
      num_train_epochs: number of passes over the training data, in place of --num_train_steps.
      num_warmup_steps: number of steps during which the learning rate rises linearly to its peak. Default: the
        recipe's share of all steps, or a tenth for your own data.
      dropout: dropout rate in the encoder, on hidden vectors and attention probabilities. Default: the task's
        recipe in the paper's Table 14, or 0 for your own data.
      classifier_dropout: dropout rate on the input of the task's head; for squad2.0, before the last layer that
        decides whether there is an answer; squad1.1 has none. Default: 0.1.
      freeze_encoder: train only the task's head; the encoder keeps its weights and has no dropout.
      lora_rank: rank of low-rank matrices (LoRA) to train beside the encoder's, together with the head.
        model.keras holds the merged weights, and adapters.safetensors only what was trained. Default: train the
        whole encoder.
      init_adapters: file adapters.safetensors to start from, of a run with the same --init_checkpoint and
        --lora_rank.
      layer_decay: factor by which the learning rate shrinks from the head to the last layer group, and from each
        group to the next below it, down to the embeddings. A model that shares all layers has two such steps: to
        the layers and to the embeddings.
      ema_decay: decay of an exponential moving average of the weights, for example 0.999; the averaged weights
        are evaluated and saved. Default: no averaging.
      max_seq_length: maximum length in tokens. Longer texts are truncated; longer contexts of questions are
        divided into windows. Default: 512, or 384 for squad1.1; for your own data 128, or 384 with questions.
        The default is lower for a model with fewer positions.
      resize_positions: accept a --max_seq_length beyond the checkpoint's position table. The table repeats its
        rows ("tile", or the flag without a value), or gets random rows ("fresh").
      doc_stride: number of tokens between the starts of successive windows of a long context. Default: 128, but
        at most a third of --max_seq_length.
      max_query_length: maximum length of a question in tokens; longer ones are truncated. Default: 64, but at
        most a quarter of --max_seq_length.
      max_qa_length: maximum length of a question with an option in multiple choice, in tokens; longer ones lose
        their beginning.
      max_answer_length: maximum length of an answer, in tokens.
      n_best_size: number of answers to each question in nbest_predictions.json.
      start_n_top: number of start positions in the beam search of SQuAD 2.0.
      end_n_top: number of end positions for each start in the beam search of SQuAD 2.0.
      pooling: what makes a text's vector of those of its tokens for --task=embedding: their "mean", the first
        one ("cls"), the "max" of each element, or the "weightedmean", in which later tokens count more. Default:
        as the model of --init_checkpoint does it, or "mean".
      vector_size: size of the vectors, which a dense layer with tanh makes of the pooled ones. Default: the dense
        layer of --init_checkpoint is trained further; without one vectors have the hidden size.
      normalize: give vectors the length 1.
      temperature: divisor of the cosines of vectors before the softmax over the texts of a batch.
      symmetric: train second texts to find the first ones, too.
      dropout_pairs: train on single texts: each must find itself in the batch under another dropout mask (SimCSE).
        Needs a model with dropout, or --dropout=0.1.
      class_weights: weights of the classes in the training loss, for example "rare:5,common:0.5"; classes
        without a weight have 1. "balanced" gives all classes the same total weight, however many examples each
        has. Default: 1 for every class.
      cache_dir: folder that keeps the tokenized windows of question answering and multiple choice for the next
        run.
      eval_batch_size: number of examples per batch of evaluation and prediction.
      pad_to_max_length: pad all batches to --max_seq_length, as the original does, instead of grouping texts of
        similar length. This is slower on CPUs and GPUs, but --backend=jax then compiles the step once, not for
        each of up to 16 lengths. With --tpu, all batches are padded.
      save_checkpoints_steps: number of steps between checkpoints and evaluations. Default: a twentieth of the
        run, at most 1000.
      log_steps: number of steps between lines in metrics.jsonl. Default: a hundredth of the run, at most 100.
      log_to: experiment tracker that gets a copy of metrics.jsonl and the settings; its own environment variables
        say where it is, such as MLFLOW_TRACKING_URI.
      early_stopping_patience: stop after this many evaluations in a row without a new best result. Default:
        train to the end.
      strict: stop at unusable rows, instead of warning about them.
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
    learning_rate: float | Literal["search"] | None = None
    search_steps: int | None = None
    restarts: int = 0
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
    doc_stride: int | None = None
    max_query_length: int | None = None
    max_qa_length: int = 128
    max_answer_length: int = 30
    n_best_size: int = 20
    start_n_top: int = 5
    end_n_top: int = 5
    pooling: Literal["mean", "cls", "max", "weightedmean"] | None = None
    vector_size: int | None = None
    normalize: bool | None = None
    temperature: float = 0.05
    symmetric: bool = False
    dropout_pairs: bool = False
    class_weights: str | None = None
    cache_dir: str | None = None
    eval_batch_size: int = 64
    pad_to_max_length: bool = False
    save_checkpoints_steps: int | None = None
    log_steps: int | None = None
    log_to: Tracker | None = None
    early_stopping_patience: int | None = None
    strict: bool = False

    @property
    def searches(self) -> bool:
        """Whether the learning rate is to be found."""
        return self.do_train and self.learning_rate == "search"

    @property
    def columns(self) -> Columns:
        """`column_names` and `label_separator` as the readers take them."""
        named = Columns.named(self.column_names, self.label_separator, names_in(self.label_order))
        return replace(named, is_own_pair=self.dropout_pairs)

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
            raise InputError("--init_adapters needs --lora_rank, the rank of these adapters. Received none.")
        if self.early_stopping_patience is not None and not self.do_eval:
            raise InputError("--early_stopping_patience needs --do_eval. Received it without; add --do_eval.")
        if self.searches and not self.do_eval:
            raise InputError(
                "--learning_rate=search needs a dev set, on which it compares rates. Received none; add --do_eval "
                "and, for your own data, --dev_file."
            )
        self.check_devices()

    def _check_data(self):
        assert self.columns  # raises InputError
        check_local(self.cache_dir or "")
        if self.high_only and self.middle_only:
            raise InputError(
                "--high_only and --middle_only exclude each other. Received both; leave both out."
            )
        if self.school and self.task.lower() != "race":
            raise InputError(f"--{self.school}_only needs --task=race. Received --task={self.task}.")
        if self.label_order:
            from albert_tf.tasks.kinds import check_order  # imports NumPy, which --help does without

            check_order(self.task)
        if self.dropout_pairs and self.task.lower() != "embedding":
            raise InputError(f"--dropout_pairs needs --task=embedding. Received --task={self.task}.")
        if not self.label_separator:
            raise InputError("--label_separator must not be empty. Received ''.")
        for role, flag in (("train", "do_train"), ("dev", "do_eval"), ("test", "do_predict")):
            if getattr(self, flag) and not getattr(self, f"{role}_file") and not self.data_dir:
                raise InputError(
                    f"--{flag} needs data: --data_dir, the task's folder, or --{role}_file. Received neither."
                )
        for role, flag in (("dev", "do_eval"), ("test", "do_predict")):
            if getattr(self, f"{role}_file") and not getattr(self, flag):
                raise InputError(
                    f"--{role}_file needs --{flag}. Received {getattr(self, f'{role}_file')} without it; add "
                    f"--{flag}, or leave the file out."
                )

    def _check_numbers(self):
        check_at_least(0, self, "seed", "num_warmup_steps", "restarts")
        check_at_least(1, self, *_AT_LEAST_ONE.split())
        if self.do_train and self.optimizer == "lamb" and self.learning_rate in (None, "search"):
            raise InputError(
                "--optimizer=lamb needs a number as --learning_rate, since the recipes' rates are for adamw. "
                f"Received {self.learning_rate or 'none'}; 0.0003 to 0.0005 are usual for batches of 64."
            )
        for name in ("learning_rate", "num_train_epochs", "temperature"):
            value = getattr(self, name)
            if value not in (None, "search") and not 0 < value < float("inf"):
                raise InputError(f"--{name} must be a number above 0. Received {value}.")
        if not 0 < self.layer_decay <= 1:
            raise InputError(f"--layer_decay must be above 0 and at most 1. Received {self.layer_decay}.")
        for name in ("dropout", "classifier_dropout", "ema_decay"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(f"--{name} must be at least 0 and below 1. Received {value}.")
