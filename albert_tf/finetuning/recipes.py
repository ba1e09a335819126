"""The recipe of each task, and the settings of a run completed from it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.tasks.benchmarks.recipes import RACE_V2, RECIPES, Recipe
from albert_tf.tasks.kind import Task
from albert_tf.tasks.task import find_task
from albert_tf.training.device_flags import at_most
from data_prep.errors import InputError

# Defaults: the number of evaluations (or logged steps) in a run, and the most steps between two of them.
_EVALUATIONS, _MOST_STEPS_BETWEEN_EVALUATIONS = 20, 1000
_LOGGED_STEPS, _MOST_STEPS_BETWEEN_LOGGED_STEPS = 100, 100


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
        recipe = RACE_V2 if task.name == "race" and is_v2 else RECIPES[task.name]
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
