"""Fine-tuning, as a story in order: devices, checkpoint, data, recipe, each seed, table."""

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints.run_files import RESULTS_FILE, SETTINGS_FILE
from albert_tf.checkpoints.runs import is_run
from albert_tf.checkpoints.stored import read_optional_json
from albert_tf.finetuning.construction import (
    build_task_model,
    choose_vocabulary,
    make_preprocessor,
    read_initial_model,
)
from albert_tf.finetuning.evaluation import FinetuningRun
from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.finetuning.recipes import choose_length, resolve
from albert_tf.finetuning.seed_folder import SeedFolder, results_table, run_results, trained_seeds
from albert_tf.finetuning.task_data import (
    classes_of,
    read_split,
    split_batches,
    warning_of_another_dev_set,
    warning_of_many_classes,
    with_class_weights,
)
from albert_tf.finetuning.trainer import train_seed
from albert_tf.tasks.feature_cache import examples_hash
from albert_tf.tasks.inference import Inference
from albert_tf.tasks.kind import Task
from albert_tf.tasks.task import find_task
from albert_tf.tasks.task_model import TaskModel
from albert_tf.training.device_flags import check_batch_divides
from albert_tf.training.interruptions import Preemption
from albert_tf.training.run_lock import locked_folder
from albert_tf.training.strategy import check_agreement, check_memory, is_chief, make_strategy
from data_prep.errors import InputError
from data_prep.files import write_json

_NOT_SHARED = (
    "--output_dir must be one folder that all workers share. Received {}, in which another worker finds another "
    "state."
)
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


def finetune(settings: FinetuningFlags) -> dict[str, Any]:
    """Trains, evaluates and predicts one task with one or several seeds; an interrupted run resumes.

    Returns:
      The content of OUTPUT_DIR/results.json (`run_results`).

    Raises:
      InputError: flags, files and checkpoint do not fit each other; then nothing has been written.
      Preempted: after SIGTERM or Ctrl-C; the state is saved.
    """
    task = find_trainable_task(settings.task)
    settings = dataclasses.replace(settings, task=task.name)
    _check_no_pretraining_run(Path(settings.output_dir))
    strategy = make_strategy(settings)
    alone = locked_folder(Path(settings.output_dir)) if is_chief(strategy) else contextlib.nullcontext()
    with Preemption(strategy) as preemption, alone:
        open_run = TrainingRun if settings.do_train else TrainedRun
        run = open_run(task, settings, strategy, preemption)
        seeds = [*(run.run_seed(seed) for seed in run.seeds), *run.results_of_other_seeds()]
        seeds.sort(key=lambda results: results["seed"])
        results = run_results(task.name, task.main_metric, seeds)
        if run.writes:
            write_json(Path(settings.output_dir) / RESULTS_FILE, results)
    if table := results_table(results):
        run.console.print(table)
    return results


def _check_no_pretraining_run(output_dir: Path) -> None:
    """Raises InputError if a folder holds a pretraining run, which readers of the folder would no longer find."""
    if is_run(output_dir):
        raise InputError(
            f"--output_dir must be a new folder or a run of `albert finetune`. Received {output_dir}, a run of "
            "`albert pretrain`; name another one."
        )


def find_trainable_task(name: str) -> Task:
    """The task of a name.

    Raises:
      InputError: there is no such task, or it has no training data.
    """
    task = find_task(name)
    if not task.splits["train"]:
        raise InputError(
            f"--task={task.name} has no training data: train on mnli, whose --do_predict also predicts the "
            "diagnostic set if --data_dir holds it."
        )
    return task


class TrainingRun(FinetuningRun):
    """A run that trains, starting from a pretrained checkpoint or from scratch."""

    def prepare(self) -> None:
        task, settings = self.task, self.settings
        self.pretrained = read_initial_model(settings)
        config = self.pretrained.config
        vocabulary = choose_vocabulary(self.pretrained, settings)
        length = choose_length(settings, task, config)
        self.preprocessor = make_preprocessor(task, vocabulary, length, settings, config)
        with self.reported_data():
            self.read_data()
        settings = dataclasses.replace(settings, do_lower_case=vocabulary.normalization.do_lower_case)
        examples = len(self.splits["train"][0].features)
        replicas = self.strategy.num_replicas_in_sync
        self.plan = resolve(settings, task, config, self.preprocessor.lengths, examples, replicas)
        if (settings.train_batch_size or 0) > self.plan.train_batch_size:
            self.say(f"--train_batch_size={settings.train_batch_size}: a batch has all {examples:,} examples")
        self.check_settings()
        self.say(str(self.plan))

    def read_data(self) -> None:
        """Reads the splits, and the classes from the training split.

        Raises:
          InputError: files cannot be read or used.
        """
        ((name, examples),) = read_split(self.task, self.settings, "train", self.problems)
        self.labels = classes_of(self.task, examples, self.settings.columns.label_order)
        if warning := warning_of_many_classes(self.task, self.labels, len(examples)):
            self.say(warning)
        if self.settings.do_eval:
            self.task.kind.check_metrics()
        self.examples_sha256 = examples_hash(examples)
        split = self.as_split(name, examples)
        if weights := self.settings.class_weights:
            split = with_class_weights(split, self.task, weights, self.labels)
        self.splits["train"] = [split]
        self.read_evaluation_splits()

    def check_settings(self) -> None:
        """Raises InputError if devices cannot share a batch evenly or hold it, or the folder holds another run.

        Says if the run began with another dev set: the weights that it keeps are the best on either.
        """
        check_batch_divides(
            self.plan.train_batch_size,
            self.strategy.num_replicas_in_sync,
            self.plan.gradient_accumulation_steps,
        )
        self._check_memory()
        warnings = set[str | None]()
        for seed in self.seeds:
            settings = dataclasses.replace(self.plan, seed=seed)
            folder = SeedFolder.of(self.settings.output_dir, seed)
            folder.check(settings, self.examples_sha256)
            stored = read_optional_json(folder.path / SETTINGS_FILE)
            warnings.add(warning_of_another_dev_set(settings, stored))
        for warning in filter(None, warnings):
            self.say(warning)

    def _check_memory(self) -> None:
        """Raises InputError if a batch does not fit into memory."""
        settings, (split,) = self.plan, self.splits["train"]
        tokens = sum(features["input_ids"].size for features in split.features) / len(split.features)
        stores = not (settings.freeze_encoder or settings.lora_rank)
        rows = settings.train_batch_size // settings.gradient_accumulation_steps
        check_memory(settings, self.pretrained.config, self.strategy, "train", rows, tokens, stores)

    def train(self, folder: SeedFolder, seed: int) -> None:
        """Trains one seed to its end, resuming if it was interrupted."""
        is_trained = folder.is_trained
        check_agreement(self.strategy, int(is_trained), _NOT_SHARED.format(folder.path))
        if is_trained:
            self.say(f"{folder.path} is already trained")
            return
        plan = dataclasses.replace(self.plan, seed=seed)
        with self.strategy.scope():
            model = build_task_model(self.task, self.pretrained, self.labels, self.preprocessor, plan)
        if self.writes:
            folder.create(plan, self.preprocessor.vocabulary, self.examples_sha256)
        inference = Inference(model)

        def evaluate(step: int) -> dict[str, float]:
            metrics, _ = self.evaluate("dev", inference, step, choose_thresholds=True)
            return {f"eval_{name}": value for name, value in metrics.items()}

        metric = f"eval_{self.task.main_metric}"
        (split,) = self.splits["train"]

        def batches(skipped: int) -> tf.data.Dataset:
            options = {"seed": seed, "num_epochs": None, "skip_batches": skipped}
            return split_batches(split, plan.train_batch_size, self.pad_to, **options)

        facts = train_seed(
            model, plan, folder, self.preemption, metric, batches, evaluate if "dev" in self.splits else None
        )
        if self.writes:
            folder.finish_training({"seed": seed, **facts})
        check_agreement(self.strategy, facts["steps"], _NOT_SHARED.format(folder.path))  # waits for the chief


class TrainedRun(FinetuningRun):
    """A run that evaluates and predicts with models that are trained already."""

    @property
    def seeds(self):
        """The seeds that are trained, unless the flags name others."""
        given, usual = self.settings, FinetuningFlags
        is_given = (given.seed, given.seeds) != (usual.seed, usual.seeds)
        return super().seeds if is_given else trained_seeds(given.output_dir) or super().seeds

    def prepare(self) -> None:
        folder, settings = SeedFolder.of(self.settings.output_dir, self.seeds[0]), self.settings
        with self.strategy.scope():
            model = folder.load_model()
        self._loaded = {folder: model}
        self.preprocessor, self.labels = model.preprocessor, model.labels
        stored = folder.read_settings()
        if stored["task"] != self.task.name:
            raise InputError(
                f"{folder.path} holds a run of {stored['task']}. Received --task={self.task.name}; name that "
                "task, or the --output_dir of another run."
            )
        for name in _OF_THE_MODEL:
            given, usual = getattr(settings, name), getattr(FinetuningFlags, name)
            if stored.get(name) is not None and given not in (usual, stored[name]):
                raise InputError(
                    f"--{name} must be what the model was trained with, {stored[name]}. Received {given}; leave "
                    "it out."
                )
        for name in _OF_THE_RUN:
            if getattr(settings, name) == getattr(FinetuningFlags, name) and name in stored:
                settings = dataclasses.replace(settings, **{name: stored[name]})
        self.settings = settings
        with self.reported_data():
            self.read_evaluation_splits()
        if warning := warning_of_another_dev_set(settings, stored):
            self.say(warning)

    def load_model(self, folder: SeedFolder) -> TaskModel:
        """The model with the best weights of a seed; the first one's is loaded already."""
        return self._loaded.pop(folder) if folder in self._loaded else super().load_model(folder)
