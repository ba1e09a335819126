"""What a command does, with nothing left open: its flags, completed once from the recipe and from its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints.checkpoint_files import say_on_stderr
from albert_tf.checkpoints.keras_models import describe
from albert_tf.checkpoints.longer_vocabulary import with_vocabulary
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.runs import is_run
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.finetuning.seed_folder import SeedFolder, trained_seeds
from albert_tf.finetuning.task_data import TaskData, read_data
from albert_tf.tasks.benchmarks.recipes import RECIPES, Recipe, for_v2
from albert_tf.tasks.choice.kind import OPTIONS
from albert_tf.tasks.kind import Task
from albert_tf.tasks.preprocessor import Preprocessor
from albert_tf.tasks.sentences.rows import DROPOUT_PAIRS
from albert_tf.tasks.splits import EncodedSplit
from albert_tf.tasks.task import find_task
from albert_tf.tasks.task_batches import BatchOrder, bucketed_batches
from albert_tf.training.device_flags import NOT_STORED, at_most, check_batch_divides
from albert_tf.training.run_place import working_folder
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary

# Defaults: the number of evaluations (or logged steps) in a run, and the most steps between two of them.
_EVALUATIONS, _MOST_STEPS_BETWEEN_EVALUATIONS = 20, 1000
_LOGGED_STEPS, _MOST_STEPS_BETWEEN_LOGGED_STEPS = 100, 100

# Own data is not in the paper: values within the ranges of its small tasks.
_OWN_DATA = Recipe(2e-5, 32, 0.0, None, None, max_seq_length=128, num_train_epochs=3)
# All rates above are for ALBERT base and larger, H=768 at least. Narrow encoders hardly learn with them.
_NARROW, _RATE_OF_NARROW = 512, 10

# Flags that the saved model has for good.
_OF_THE_MODEL = (
    "max_seq_length",
    "doc_stride",
    "max_query_length",
    "max_qa_length",
    "start_n_top",
    "end_n_top",
)
# Flags that a run without --do_train has from the training, unless they are given.
_OF_THE_RUN = ("column_names", "label_separator", "max_answer_length", "n_best_size")


@dataclass(frozen=True, kw_only=True)
class FinetuningPlan(FinetuningFlags):
    """The flags with every default filled in, which settings.json holds, and what they stand for.

    Without --do_train, what only training needs is as the model was trained with.

    Attributes:
      definition: the task that `task` names.
      folder: the run's folder.
      seed_numbers: the seeds to train or to evaluate.
      initial: the model to start from, without weights once an encoder has them; None from scratch and without
        --do_train.
      config: the encoder to start from.
      preprocessor: from strings to the model's arrays, which is saved with the model.
      data: the task's data.
    """

    train_batch_size: int = field()  # without it, the field would have the flag's default
    learning_rate: float = field()
    num_train_steps: int = field()
    num_warmup_steps: int = field()
    dropout: float = field()
    classifier_dropout: float = field()
    max_seq_length: int = field()
    save_checkpoints_steps: int = field()
    log_steps: int = field()
    definition: Task = field(metadata=NOT_STORED)
    folder: Path = field(metadata=NOT_STORED)
    seed_numbers: Sequence[int] = field(metadata=NOT_STORED)
    initial: StoredModel | None = field(metadata=NOT_STORED)
    config: AlbertConfig = field(metadata=NOT_STORED)
    preprocessor: Preprocessor = field(metadata=NOT_STORED)
    data: TaskData = field(metadata=NOT_STORED)

    def __post_init__(self):
        """Checks nothing: the flags were checked."""

    def __str__(self) -> str:
        has_dropout = self.definition.kind.has_dropout(self.definition)
        in_head = f" and {self.classifier_dropout:g} in the head" if has_dropout else ""
        return (
            f"{self.task}: {self.num_train_steps:,} steps of {self.train_batch_size}, learning rate "
            f"{self.learning_rate:g} after {self.num_warmup_steps:,} of warm-up, dropout {self.dropout:g}"
            f"{in_head}, {self.max_seq_length} tokens"
        )

    def batches(
        self, split: EncodedSplit, batch_size: int, *, seed: int | None = None, **options
    ) -> tf.data.Dataset:
        """Batches of a split, all of `batch_size`: the last one is filled with examples of weight 0.

        They hold texts of similar lengths, unless all have one length, as on TPUs, which compile each. JAX does
        so, too: there lengths are rounded up to few different ones.

        Args:
          split: the split.
          batch_size: B.
          seed: determines the order for training; None is for evaluation.
          **options: `num_epochs` and `skip_batches` of `BatchOrder`.
        """
        pad_to = self.max_seq_length if self.pad_to_max_length or self.tpu else None
        multiple = max(8, self.max_seq_length // 16) if self.uses_jax else 1
        order = BatchOrder(seed, by_length=pad_to is None, **options)
        return bucketed_batches(
            split.features, batch_size, order, fill_remainder=True, pad_to=pad_to, length_multiple=multiple
        )


def make_plan(flags: FinetuningFlags, replicas: int = 1) -> FinetuningPlan:
    """Reads the files that the flags name; prints what they hold.

    Args:
      flags: the flags.
      replicas: the devices that share a batch. They must be chosen before: tensorflow-datasets starts TensorFlow.

    Raises:
      InputError: flags, files and checkpoint do not fit each other.
    """
    folder = working_folder(flags.output_dir, flags)
    if is_run(folder):  # readers of the folder would no longer find it
        raise InputError(
            f"--output_dir must be a new folder or a run of `albert finetune`. Received {folder}, a run of "
            "`albert pretrain`; name another one."
        )
    task = find_task(flags.task)
    if not task.splits["train"]:
        raise InputError(
            f"--task={task.name} has no training data: train on mnli, whose --do_predict also predicts the "
            "diagnostic set if --data_dir holds it."
        )
    if flags.do_eval:
        task.kind.check_metrics()
    flags = replace(flags, task=task.name, backend=flags.chosen_backend)
    return _plan_training(flags, task, replicas) if flags.do_train else _plan_evaluation(flags, task)


def _plan_training(flags: FinetuningFlags, task: Task, replicas: int) -> FinetuningPlan:
    initial = open_model(flags.init_checkpoint, flags.albert_config_file) if flags.init_checkpoint else None
    if initial and "pooler" in initial.missing:
        say_on_stderr(f"{flags.init_checkpoint} holds no pooler: using fresh weights")
    if initial and flags.vocab_file:
        initial = with_vocabulary(initial, Vocabulary.read(flags.vocab_file, flags.do_lower_case))
    config = initial.config if initial else AlbertConfig.from_json_file(flags.albert_config_file or "")
    vocabulary = _choose_vocabulary(flags, initial, config)
    lengths = {name: getattr(flags, name) for name in task.kind.preprocessor.more_lengths}
    preprocessor = task.kind.preprocessor(vocabulary, choose_length(flags, task, config), **lengths)
    data = read_data(flags, task, preprocessor)
    rows = data.num_training_rows
    resolved = complete(flags, task, config, preprocessor.lengths, rows, replicas)
    if how := initial.sentence_vectors if initial else None:
        how.check()
        size = how.dense.bias.size if how.dense else None
        resolved = {"pooling": how.pooling, "normalize": how.normalize, "vector_size": size, **resolved}
    if flags.dropout_pairs and not resolved["dropout"]:
        raise InputError(DROPOUT_PAIRS)
    check_batch_divides(resolved["train_batch_size"], replicas, flags.gradient_accumulation_steps)
    if (flags.train_batch_size or 0) > resolved["train_batch_size"]:
        say_on_stderr(f"--train_batch_size={flags.train_batch_size}: a batch has all {rows:,} examples")
    return FinetuningPlan(
        **{**resolved, "do_lower_case": vocabulary.normalization.do_lower_case},
        definition=task,
        folder=working_folder(flags.output_dir, flags),
        seed_numbers=range(flags.seed, flags.seed + flags.seeds),
        initial=initial,
        config=config,
        preprocessor=preprocessor,
        data=data,
    )


def _plan_evaluation(flags: FinetuningFlags, task: Task) -> FinetuningPlan:
    """The plan of a command without --do_train, for the seeds that are trained unless the flags name others."""
    run = working_folder(flags.output_dir, flags)
    seeds: Sequence[int] = range(flags.seed, flags.seed + flags.seeds)
    if (flags.seed, flags.seeds) == (FinetuningFlags.seed, FinetuningFlags.seeds):
        seeds = trained_seeds(run) or seeds
    folder = SeedFolder.of(run, seeds[0])
    model = describe(folder.model_file)  # whose weights are read when they are needed
    stored = folder.read_settings()
    if stored["task"] != task.name:
        raise InputError(
            f"{folder.path} holds a run of {stored['task']}. Received --task={task.name}; name that "
            "task, or the --output_dir of another run."
        )
    for name in _OF_THE_MODEL:
        given, usual = getattr(flags, name), getattr(FinetuningFlags, name)
        if stored.get(name) is not None and given not in (usual, stored[name]):
            raise InputError(
                f"--{name} must be what the model was trained with, {stored[name]}. Received {given}; leave "
                "it out."
            )
    for name in _OF_THE_RUN:
        if getattr(flags, name) == getattr(FinetuningFlags, name):
            flags = replace(flags, **{name: stored[name]})
    vocabulary = model.read_vocabulary()
    assert model.task and vocabulary, "what training has saved holds both"
    lengths = {name: stored[name] for name in ("max_seq_length", *task.kind.preprocessor.more_lengths)}
    preprocessor = task.kind.preprocessor(vocabulary, **lengths)
    trained = {name: stored[name] for name in FinetuningPlan.__annotations__ if name in stored}
    return FinetuningPlan(
        **{**vars(flags), **trained},
        definition=task,
        folder=working_folder(flags.output_dir, flags),
        seed_numbers=seeds,
        initial=None,
        config=model.shape,
        preprocessor=preprocessor,
        data=read_data(flags, task, preprocessor, model.task.labels),
    )


def _choose_vocabulary(
    flags: FinetuningFlags, initial: StoredModel | None, config: AlbertConfig
) -> Vocabulary:
    """The vocabulary that the flags name, otherwise the checkpoint's own."""
    vocabulary = initial.vocabulary if initial else None
    if flags.vocab_file and not initial:
        vocabulary = Vocabulary.read(flags.vocab_file, flags.do_lower_case)
    if vocabulary is None:
        raise InputError(
            f"A tokenizer needs a vocabulary, and {flags.init_checkpoint or flags.albert_config_file} comes "
            "without one. Name the SentencePiece model or the WordPiece vocab.txt with --vocab_file."
        )
    if (pieces := vocabulary.count_pieces()) > config.vocab_size:
        raise InputError(
            f"The vocabulary must be the model's own. Received one of {pieces:,} pieces, where the model has "
            f"{config.vocab_size:,} embeddings; name another one with --vocab_file."
        )
    return vocabulary


def choose_length(flags: FinetuningFlags, task: Task, config: AlbertConfig) -> int:
    """The longest sequence: the flag's or the recipe's, limited by the checkpoint's position table."""
    longest = config.max_position_embeddings
    length = flags.max_seq_length or find_recipe(task, config).max_seq_length
    if length <= longest or flags.resize_positions:
        return length
    if flags.max_seq_length:
        raise InputError(
            f"--max_seq_length must not exceed the checkpoint's position table, {longest}. Received {length}; "
            "--resize_positions repeats its rows."
        )
    return longest


def find_recipe(task: Task, config: AlbertConfig) -> Recipe:
    """The recipe of a task, for a checkpoint of this configuration."""
    is_v2 = config.hidden_dropout_prob == 0 and config.attention_probs_dropout_prob == 0
    own = replace(_OWN_DATA, max_seq_length=task.kind.usual_length)
    recipe = own if task.is_own_data else RECIPES[task.name]
    if is_v2:
        recipe = for_v2(recipe, is_multiple_choice=task.kind is OPTIONS)
    factor = _RATE_OF_NARROW if config.hidden_size < _NARROW else 1
    return replace(recipe, learning_rate=factor * recipe.learning_rate)


def complete(
    flags: FinetuningFlags,
    task: Task,
    config: AlbertConfig,
    lengths: Mapping[str, int],
    rows: int,
    replicas: int = 1,
) -> dict[str, Any]:
    """The values of all flags: each one that the user leaves open comes from the task's recipe.

    Args:
      flags: the flags.
      task: as `find_task` returns it.
      config: the checkpoint's.
      lengths: the preprocessor's, such as max_seq_length.
      rows: number of training examples; of windows in question answering. No batch is larger, but for what
        the devices need to share it evenly.
      replicas: the devices.
    """
    recipe = find_recipe(task, config)
    wanted = flags.train_batch_size or recipe.train_batch_size
    batch_size = at_most(rows, wanted, replicas * flags.gradient_accumulation_steps)
    steps = flags.num_train_steps or recipe.steps(rows, batch_size, flags.num_train_epochs)
    defaults = {
        "learning_rate": recipe.learning_rate,
        "num_train_steps": steps,
        "num_warmup_steps": recipe.warmup(steps),
        "dropout": config.hidden_dropout_prob if flags.dropout_pairs else recipe.dropout,
        "classifier_dropout": recipe.classifier_dropout,
        "save_checkpoints_steps": min(_MOST_STEPS_BETWEEN_EVALUATIONS, -(-steps // _EVALUATIONS)),
        "log_steps": min(_MOST_STEPS_BETWEEN_LOGGED_STEPS, -(-steps // _LOGGED_STEPS)),
    }
    given = {name: value for name, value in vars(flags).items() if value is not None}
    if flags.searches:
        del given["learning_rate"]  # the search begins around the usual one
    return {**defaults, **given, "train_batch_size": batch_size, "num_train_epochs": None, **lengths}
