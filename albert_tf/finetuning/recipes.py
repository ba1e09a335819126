"""What to train each task with: the paper's Table 14, and the settings of a run completed from it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.tasks.kind import Task
from albert_tf.tasks.task import find_task
from albert_tf.tasks.task_batches import batches_per_epoch
from albert_tf.training.device_flags import at_most
from data_prep.errors import InputError

# Defaults: the number of evaluations (or logged steps) in a run, and the most steps between two of them.
_EVALUATIONS, _MOST_STEPS_BETWEEN_EVALUATIONS = 20, 1000
_LOGGED_STEPS, _MOST_STEPS_BETWEEN_LOGGED_STEPS = 100, 100


@dataclass(frozen=True)
class Recipe:
    """How one task is fine-tuned, by steps or, for data of any size, by epochs.

    Attributes:
      learning_rate: the peak.
      train_batch_size: examples per step.
      dropout: of the encoder ("ALBERT DR"), on hidden vectors and attention probabilities.
      num_train_steps: steps of the whole run; None if `num_train_epochs` determines them.
      num_warmup_steps: steps of linear warm-up; None for a tenth of the steps.
      max_seq_length: longer texts are truncated; longer contexts of questions become several windows.
      num_train_epochs: passes over the training data.
      classifier_dropout: on the input of the task's head; see `FinetuningFlags`.
    """

    learning_rate: float
    train_batch_size: int
    dropout: float
    num_train_steps: int | None
    num_warmup_steps: int | None
    max_seq_length: int = 512
    num_train_epochs: float = 0
    classifier_dropout: float = 0.1

    def steps(self, examples: int, batch_size: int, epochs: float | None) -> int:
        """How many steps to train: `epochs` if given, otherwise the recipe's length."""
        if epochs is None and self.num_train_steps is not None:
            return self.num_train_steps
        # The last batch of an epoch may have fewer examples; it is a step, too.
        per_epoch = batches_per_epoch(examples, batch_size)
        return max(1, round(per_epoch * (epochs or self.num_train_epochs)))

    def warmup(self, steps: int) -> int:
        """Steps of warm-up: the same share of `steps` as in the recipe."""
        if self.num_train_steps is None or self.num_warmup_steps is None:
            return steps // 10
        return round(self.num_warmup_steps * steps / self.num_train_steps)


RECIPES = {
    "cola": Recipe(1e-5, 16, 0.0, 5336, 320),
    "sts-b": Recipe(2e-5, 16, 0.0, 3598, 214),
    "sst-2": Recipe(1e-5, 32, 0.0, 20935, 1256),
    "mnli": Recipe(3e-5, 128, 0.0, 10000, 1000),
    "qnli": Recipe(1e-5, 32, 0.0, 33112, 1986),
    "qqp": Recipe(5e-5, 128, 0.1, 14000, 1000),
    "rte": Recipe(3e-5, 32, 0.1, 800, 200),
    "mrpc": Recipe(2e-5, 32, 0.0, 800, 200),
    "wnli": Recipe(2e-5, 16, 0.1, 2000, 250),
    "squad1.1": Recipe(5e-5, 48, 0.0, 3649, 365, max_seq_length=384),
    "squad2.0": Recipe(3e-5, 48, 0.0, 8144, 814),
    "race": Recipe(2e-5, 32, 0.1, 12000, 1000),
}
# With the recipe v2 checkpoints diverge on RACE (the original's README).
_RACE_V2 = replace(RECIPES["race"], learning_rate=1e-5, dropout=0.0)
# Own data is not in the paper: values within the ranges of its small tasks.
_OWN_DATA = Recipe(2e-5, 32, 0.0, None, None, max_seq_length=128, num_train_epochs=3)
# All rates above are for ALBERT base and larger, H=768 at least. Narrow encoders hardly learn with them.
_NARROW, _RATE_OF_NARROW = 512, 10


def find_recipe(task: Task, config: AlbertConfig) -> Recipe:
    """The recipe of a task, for a checkpoint of this configuration."""
    is_v2 = config.hidden_dropout_prob == 0 and config.attention_probs_dropout_prob == 0
    if task.is_own_data:
        recipe = replace(_OWN_DATA, max_seq_length=task.kind.usual_length)
    else:
        recipe = _RACE_V2 if task.name == "race" and is_v2 else RECIPES[task.name]
    factor = _RATE_OF_NARROW if config.hidden_size < _NARROW else 1
    return replace(recipe, learning_rate=factor * recipe.learning_rate)


@dataclass(frozen=True, kw_only=True)
class FinetuningPlan(FinetuningFlags):
    """The settings of a run that trains, with a value for everything that the flags may leave to the recipe."""

    train_batch_size: int
    learning_rate: float
    num_train_steps: int
    num_warmup_steps: int
    dropout: float
    classifier_dropout: float
    max_seq_length: int
    save_checkpoints_steps: int
    log_steps: int

    def __str__(self) -> str:
        task = find_task(self.task)
        in_head = f" and {self.classifier_dropout:g} in the head" if task.kind.has_dropout(task) else ""
        return (
            f"{self.task}: {self.num_train_steps:,} steps of {self.train_batch_size}, learning rate "
            f"{self.learning_rate:g} after {self.num_warmup_steps:,} of warm-up, dropout {self.dropout:g}"
            f"{in_head}, {self.max_seq_length} tokens"
        )


def choose_length(settings: FinetuningFlags, task: Task, config: AlbertConfig) -> int:
    """The longest sequence: the flag's or the recipe's, limited by the checkpoint's position table.

    Raises:
      InputError: the flag exceeds the table, and `resize_positions` is not set.
    """
    longest = config.max_position_embeddings
    length = settings.max_seq_length or find_recipe(task, config).max_seq_length
    if length <= longest or settings.resize_positions:
        return length
    if settings.max_seq_length:
        raise InputError(
            f"--max_seq_length must not exceed the checkpoint's position table, {longest}. Received {length}; "
            "--resize_positions repeats its rows."
        )
    return longest


def resolve(
    settings: FinetuningFlags,
    task: Task,
    config: AlbertConfig,
    lengths: Mapping[str, int],
    examples: int,
    replicas: int = 1,
) -> FinetuningPlan:
    """Completes the settings: each value that the user leaves open comes from the task's recipe.

    Args:
      settings: the flags.
      task: as `find_task` returns it.
      config: the checkpoint's.
      lengths: the preprocessor's, such as max_seq_length.
      examples: number of training examples; of windows in question answering. No batch is larger.
      replicas: the devices that share a batch.
    """
    recipe = find_recipe(task, config)
    shares = replicas * settings.gradient_accumulation_steps
    batch_size = at_most(examples, settings.train_batch_size or recipe.train_batch_size, shares)
    steps = settings.num_train_steps or recipe.steps(examples, batch_size, settings.num_train_epochs)
    defaults = {
        "learning_rate": recipe.learning_rate,
        "num_train_steps": steps,
        "num_warmup_steps": recipe.warmup(steps),
        "dropout": recipe.dropout,
        "classifier_dropout": recipe.classifier_dropout,
        "save_checkpoints_steps": min(_MOST_STEPS_BETWEEN_EVALUATIONS, -(-steps // _EVALUATIONS)),
        "log_steps": min(_MOST_STEPS_BETWEEN_LOGGED_STEPS, -(-steps // _LOGGED_STEPS)),
    }
    given = {name: value for name, value in dataclasses.asdict(settings).items() if value is not None}
    chosen = {"train_batch_size": batch_size, "num_train_epochs": None, **lengths}
    resolved = {**defaults, **given, **chosen}
    return FinetuningPlan(**resolved)
