"""Settings in which nothing is left open: what the user said, else the recipe, within the checkpoint's limits."""

import dataclasses
import json
from pathlib import Path

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.recipes import find_recipe, steps_of, warmup_of
from albert_tf.finetuning.settings import FinetuningSettings
from data_prep.errors import InputError
from data_prep.tasks.task import Task

_MOST_EVALUATIONS, _MOST_LINES = 20, 100  # of a run, unless that leaves more than so many steps between:
_MOST_STEPS_BETWEEN_EVALUATIONS, _MOST_STEPS_BETWEEN_LINES = 1000, 100


def with_length(settings: FinetuningSettings, task: Task, config: AlbertConfig) -> FinetuningSettings:
    """Settings with `max_seq_length`: the recipe's, or as long as the checkpoint's position table.

    Raises:
      InputError: the user's is longer than that, and `resize_positions` is not set.
    """
    longest = config.max_position_embeddings
    given = settings.max_seq_length or find_recipe(task.name, task.kind, without_dropout=True).max_seq_length
    if given <= longest or settings.resize_positions:
        return dataclasses.replace(settings, max_seq_length=given)
    if settings.max_seq_length:
        raise InputError(
            f"--max_seq_length must not exceed what the checkpoint was trained for, {longest}. Received {given}; "
            "--resize_positions lets further positions begin as chance has them."
        )
    return dataclasses.replace(settings, max_seq_length=longest)


def with_recipe(
    settings: FinetuningSettings, task: Task, config: AlbertConfig, examples: int
) -> FinetuningSettings:
    """Settings with everything that training needs, from the task's recipe where the user does not say.

    Args:
      settings: with a length.
      task: from `find_task`.
      config: the checkpoint's.
      examples: how many there are to train on; windows in question answering.
    """
    without_dropout = config.hidden_dropout_prob == 0 and config.attention_probs_dropout_prob == 0
    recipe = find_recipe(task.name, task.kind, without_dropout=without_dropout)
    batch_size = settings.train_batch_size or recipe.train_batch_size
    recipe = dataclasses.replace(recipe, train_batch_size=batch_size)
    steps = steps_of(recipe, examples, settings.num_train_steps, settings.num_train_epochs)
    return dataclasses.replace(
        settings,
        train_batch_size=batch_size,
        learning_rate=settings.learning_rate or recipe.learning_rate,
        num_train_steps=steps,
        num_train_epochs=None,
        num_warmup_steps=warmup_of(recipe, steps, settings.num_warmup_steps),
        dropout=recipe.dropout if settings.dropout is None else settings.dropout,
        classifier_dropout=(
            recipe.classifier_dropout if settings.classifier_dropout is None else settings.classifier_dropout
        ),
        save_checkpoints_steps=settings.save_checkpoints_steps
        or max(1, min(_MOST_STEPS_BETWEEN_EVALUATIONS, steps // _MOST_EVALUATIONS)),
        log_steps=settings.log_steps or max(1, min(_MOST_STEPS_BETWEEN_LINES, steps // _MOST_LINES)),
    )


def recipe_line(settings: FinetuningSettings) -> str:
    """What a run trains with, in a line."""
    return (
        f"{settings.task}: {settings.num_train_steps:,} steps of {settings.train_batch_size}, learning rate "
        f"{settings.learning_rate:g} after {settings.num_warmup_steps:,} of warm-up, dropout {settings.dropout:g} "
        f"and {settings.classifier_dropout:g} in the head, {settings.max_seq_length} tokens"
    )


def with_stored(settings: FinetuningSettings, path: Path) -> FinetuningSettings:
    """Settings for evaluating and predicting: what the user leaves open is as the model was trained with.

    Args:
      settings: without training.
      path: the run's settings.json.

    Raises:
      InputError: the run is of another task.
    """
    stored = json.loads(path.read_text(encoding="utf-8"))
    if stored["task"] != settings.task:
        raise InputError(
            f"{path.parent} holds a run of {stored['task']}. Received --task={settings.task}; name that task, or "
            "the --output_dir of another run."
        )
    known = {field.name for field in dataclasses.fields(settings)}
    left_open = {
        name: value
        for name, value in stored.items()
        if name in known and getattr(settings, name) in (None, "")
    }
    kept = {"do_lower_case": stored["do_lower_case"], "num_train_epochs": None}
    for name in (
        "data_dir",
        "train_file",
        "dev_file",
        "test_file",
        "num_devices",
        "early_stopping_patience",
        "cache_dir",
    ):
        kept[name] = getattr(settings, name)
    return dataclasses.replace(settings, **{**left_open, **kept})
