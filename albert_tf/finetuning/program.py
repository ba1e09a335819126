"""Fine-tuning, as a story in order: devices, checkpoint, data, recipe, each seed, table."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from rich.console import Console

from albert_tf.evaluation.classification_metrics import has_entities, import_seqeval
from albert_tf.finetuning.building import choose_vocabulary, make_preprocessor
from albert_tf.finetuning.resolving import recipe_line, with_length, with_recipe, with_stored
from albert_tf.finetuning.results import results_table, write_results
from albert_tf.finetuning.run import Work, finish_seed, train_seed
from albert_tf.finetuning.run_folder import (
    SETTINGS_FILE,
    check_folder,
    is_trained,
    load_finetuned,
    seed_folder,
)
from albert_tf.finetuning.settings import FinetuningSettings
from albert_tf.finetuning.task_data import Split, as_split, classes_of, read_split
from albert_tf.finetuning.task_outputs import main_metric_of
from albert_tf.pretrained.loading import load_pretrained
from albert_tf.training.failures import failures_told
from albert_tf.training.preemption import Preemption
from albert_tf.training.strategy import make_strategy
from data_prep.errors import InputError
from data_prep.tasks.examples import Problems, QuestionExample
from data_prep.tasks.task import Task, find_task
from data_prep.tasks.windows import tell_unreachable


def finetune(settings: FinetuningSettings) -> dict[str, Any]:
    """Trains, evaluates and predicts one task with one seed or several, each going on where it was interrupted.

    Returns:
      What is in OUTPUT_DIR/results.json (`results.write_results`).

    Raises:
      InputError: flags, files and checkpoint do not fit each other; then nothing has been written.
      Preempted: there was a SIGTERM, and the state is saved.
    """
    console = Console(stderr=True)

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    task = find_task(settings.task)
    settings = dataclasses.replace(settings, task=task.name)
    check_task(task)
    strategy = make_devices(settings)
    with Preemption(strategy) as preemption:
        work = (start_training if settings.do_train else start_from_trained)(
            task, settings, strategy, preemption, say
        )
        seeds = []
        for seed in range(settings.seed, settings.seed + settings.seeds):
            run = seed_folder(settings.output_dir, seed)
            if settings.seeds > 1:
                say(f"seed {seed}")
            with failures_told(run):
                if settings.do_train and is_trained(run):
                    say(f"{run} is trained already")
                elif settings.do_train:
                    train_seed(work, seed)
                seeds.append({"seed": seed, **finish_seed(work, run)})
    results = write_results(Path(settings.output_dir), task.name, main_metric_of(task), seeds)
    if table := results_table(results):
        console.print(table)
    return results


def check_task(task: Task) -> None:
    """Raises InputError for a task that no model is trained for."""
    if not task.splits["train"]:
        raise InputError(
            f"--task={task.name} has no training data: train on mnli, whose --do_predict predicts the diagnostic "
            "set too where --data_dir holds it."
        )


def make_devices(settings: FinetuningSettings) -> tf.distribute.Strategy:
    """The strategy that the flags ask for.

    Raises:
      InputError: there are no such devices, they cannot share a batch, or TF_CONFIG names several machines.
    """
    strategy = make_strategy(settings)
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        raise InputError(
            "Fine-tuning runs on one machine, with all its GPUs. TF_CONFIG names several; unset it, and give each "
            "machine a --seed of its own."
        )
    return strategy


def start_training(
    task: Task,
    settings: FinetuningSettings,
    strategy: tf.distribute.Strategy,
    preemption: Preemption,
    say: Callable[[str], None],
) -> Work:
    """Reads checkpoint and data, and settles what is left open, for a run that trains."""
    assert settings.init_checkpoint
    loaded = load_pretrained(settings.init_checkpoint, seed=settings.seed)
    vocabulary = choose_vocabulary(loaded, settings)
    settings = dataclasses.replace(settings, do_lower_case=vocabulary.do_lower_case)
    settings = with_length(settings, task, loaded.config)
    preprocessor = make_preprocessor(task, vocabulary, settings, loaded.config)
    problems = Problems()
    train = read_split(task, settings, "train", problems)
    labels = classes_of(task, train[0][1])
    if settings.do_eval and task.kind == "token_classification" and has_entities(labels):
        import_seqeval()  # or InputError, before training and not after it
    splits = {"train": [as_split(task, *of, preprocessor, labels, settings.cache_dir) for of in train]}
    splits |= read_other_splits(task, settings, problems, preprocessor, labels)
    tell(splits, problems, settings, say)
    settings = with_recipe(settings, task, loaded.config, len(splits["train"][0].features))
    check_batch(settings, strategy)
    for seed in range(settings.seed, settings.seed + settings.seeds):
        check_folder(dataclasses.replace(settings, seed=seed), seed)
    say(recipe_line(settings))
    return Work(task, settings, labels, preprocessor, splits, loaded, strategy, preemption)


def start_from_trained(
    task: Task,
    settings: FinetuningSettings,
    strategy: tf.distribute.Strategy,
    preemption: Preemption,
    say: Callable[[str], None],
) -> Work:
    """Reads the data for models that are trained already, with the lengths and labels of theirs."""
    run = seed_folder(settings.output_dir, settings.seed)
    model = load_finetuned(run)
    longest = model.preprocessor.max_seq_length
    if settings.max_seq_length not in (None, longest):
        raise InputError(
            f"--max_seq_length must be what the model was trained with, {longest}. Received "
            f"{settings.max_seq_length}; leave it out."
        )
    settings = with_stored(settings, run / SETTINGS_FILE)
    problems = Problems()
    splits = read_other_splits(task, settings, problems, model.preprocessor, model.labels)
    tell(splits, problems, settings, say)
    return Work(task, settings, model.labels, model.preprocessor, splits, None, strategy, preemption)


def read_other_splits(task, settings, problems, preprocessor, labels) -> dict[str, list[Split]]:
    """The splits of "dev" and "test", where they are wanted."""
    return {
        role: [
            as_split(task, *of, preprocessor, labels, settings.cache_dir)
            for of in read_split(task, settings, role, problems, labels)
        ]
        for role, wanted in (("dev", settings.do_eval), ("test", settings.do_predict))
        if wanted
    }


def tell(
    splits: dict[str, list[Split]],
    problems: Problems,
    settings: FinetuningSettings,
    say: Callable[[str], None],
) -> None:
    """Says what was read and what was wrong with it.

    Raises:
      InputError: something was wrong, and --strict allows nothing.
    """
    for split in splits.get("train", ()):
        questions = [example for example in split.examples if isinstance(example, QuestionExample)]
        tell_unreachable(questions, split.windows, problems)
    problems.check(strict=settings.strict)
    for line in problems.lines():
        say(f"warning: {line}")
    for of_role in splits.values():
        for split in of_role:
            say(split.in_words())


def check_batch(settings: FinetuningSettings, strategy: tf.distribute.Strategy) -> None:
    """Raises InputError where the devices cannot share a training batch evenly."""
    replicas, batch = strategy.num_replicas_in_sync, settings.train_batch_size
    assert batch
    if batch % replicas:
        raise InputError(
            f"--train_batch_size must be divisible by the number of devices. Received {batch} and {replicas}."
        )
