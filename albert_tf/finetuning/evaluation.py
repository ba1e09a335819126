"""What all seeds of a fine-tuning run share, and what is done with each of them."""

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.finetuning.seed_folder import SeedFolder, trained_seeds
from albert_tf.finetuning.task_data import read_split, split_batches
from albert_tf.tasks.inference import Inference
from albert_tf.tasks.kind import Task
from albert_tf.tasks.preprocessor import Preprocessor
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.spans.answers import null_threshold_of
from albert_tf.tasks.splits import EncodedSplit, by_row
from albert_tf.tasks.task_model import TaskModel
from albert_tf.training.device_flags import at_most
from albert_tf.training.interruptions import Preemption, as_input_errors
from albert_tf.training.strategy import check_agreement, is_chief
from data_prep.console import open_console
from data_prep.errors import InputError


class FinetuningRun:
    """What all seeds of a run share, and what is done with each of them.

    All workers do the same; the chief alone writes.

    Attributes:
      task: the task.
      settings: the flags.
      strategy: the devices.
      writes: whether this process writes the run's folder.
      preemption: whether a signal to stop has arrived.
      preprocessor: from strings to the model's arrays.
      labels: the classes in the model's order.
      splits: the splits to use, by role: "train", "dev", "test".
      problems: rows that cannot be used.
      console: where the run reports.
    """

    preprocessor: Preprocessor
    labels: tuple[str, ...]

    def __init__(
        self,
        task: Task,
        settings: FinetuningFlags,
        strategy: tf.distribute.Strategy,
        preemption: Preemption,
    ):
        self.task, self.settings, self.strategy, self.preemption = task, settings, strategy, preemption
        self.writes = is_chief(strategy)
        self.splits: dict[str, list[EncodedSplit]] = {}
        self.problems = Problems()
        self.console = open_console(stderr=True)
        self.prepare()
        check_agreement(
            strategy,
            zlib.crc32(repr((self.settings, self.splits.keys())).encode()),
            "All workers must be started with the same flags. Those of another worker differ.",
        )

    def prepare(self) -> None:
        """Chooses preprocessor and labels, reads the splits, and checks everything before the first seed."""
        raise NotImplementedError

    @property
    def seeds(self) -> Sequence[int]:
        """The seeds of the run."""
        return range(self.settings.seed, self.settings.seed + self.settings.seeds)

    def say(self, line: str) -> None:
        """Prints a line."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def read_evaluation_splits(self) -> None:
        """Reads the dev and test splits that the flags ask for.

        Raises:
          InputError: files cannot be read or used, or the dev set has no answers to questions.
        """
        for role, wanted in (("dev", self.settings.do_eval), ("test", self.settings.do_predict)):
            if wanted:
                read = read_split(self.task, self.settings, role, self.problems, self.labels)
                self.splits[role] = [self.as_split(*split) for split in read]
        if "dev" in self.splits and not self.task.kind.has_answers(self.task, self.splits["dev"]):
            raise InputError(
                "--do_eval needs a dev set with answers. Received one without any; leave --do_eval out."
            )

    def as_split(self, name: str, examples: Sequence[Any]) -> EncodedSplit:
        """Examples as arrays."""
        folder = self.settings.cache_dir
        cache = Path(folder) / f"{self.task.name}-{name}" if folder else None
        return self.preprocessor.split(name, examples, self.labels, cache)

    @contextlib.contextmanager
    def reported_data(self) -> Iterator[None]:
        """Prints what is read in the block, and first unusable rows, also if the rest is too little.

        Raises:
          InputError: there is a problem, and --strict allows none.
        """
        try:
            yield
            for split in self.splits.get("train", ()):
                self.task.kind.report_training(split, self.problems)
            self.problems.check(strict=self.settings.strict)
        except InputError as error:
            self._warn_of_problems(str(error))
            raise
        self._warn_of_problems()
        for splits in self.splits.values():
            for split in splits:
                self.say(str(split))
                if cut := self.preprocessor.count_cut(split, self.labels):
                    longest = self.preprocessor.max_seq_length
                    self.say(f"warning: {split.name}: {cut:,} examples are cut to --max_seq_length={longest}")

    def _warn_of_problems(self, said: str = "") -> None:
        """Prints a line for each kind of unusable rows, unless an error says it."""
        for line in self.problems.lines():
            if line not in said:
                self.say(f"warning: {line}")

    def run_seed(self, seed: int) -> dict[str, Any]:
        """Trains one seed, unless its training is finished, then evaluates and predicts with its best weights.

        Returns:
          "seed", "steps" and "best_step" of its training, and its metrics by role.
        """
        folder = SeedFolder.of(self.settings.output_dir, seed)
        if len(self.seeds) > 1:
            self.say(f"seed {seed}")
        with as_input_errors(folder.path):
            self.train(folder, seed)
            return {"seed": seed, **self.evaluate_and_predict(folder)}

    def results_of_other_seeds(self) -> list[dict[str, Any]]:
        """The results of seeds that earlier commands trained in the same folder for the same task."""
        seeds = set(trained_seeds(self.settings.output_dir)) - set(self.seeds)
        folders = {seed: SeedFolder.of(self.settings.output_dir, seed) for seed in seeds}
        return [
            {"seed": seed, **folder.read_results()}
            for seed, folder in folders.items()
            if folder.read_settings().get("task") == self.task.name
        ]

    def train(self, folder: SeedFolder, seed: int) -> None:
        """Trains one seed, if the run trains."""

    def evaluate_and_predict(self, folder: SeedFolder) -> dict[str, Any]:
        """Evaluates and predicts with the best weights of a seed; returns and writes its results."""
        results = folder.read_results()
        inference = Inference(self.load_model(folder))
        for role in ("dev", "test"):
            if role not in self.splits:
                continue
            metrics, predictions = self.evaluate(role, inference, results.get("steps", 0))
            if metrics:
                results[role] = metrics
            elif role == "test":
                results.pop(role, None)  # of an earlier test set
                self.explain_missing_metrics(role)
            if self.writes:
                threshold = null_threshold_of(results)
                for split, of_split in zip(self.splits[role], predictions, strict=True):
                    self.task.kind.keep(folder.path, split.name, of_split, threshold)
        if self.writes:
            folder.write_results(results)
        return results

    def explain_missing_metrics(self, role: str) -> None:
        """Says why a set whose labels are known in part has no metrics."""
        labels = [self.task.kind.label(one) for split in self.splits[role] for one in split.examples]
        if 0 < (missing := labels.count(None)) < len(labels):
            self.say(
                f"warning: {role}: no metrics, because {missing:,} of {len(labels):,} rows have no label"
            )

    def load_model(self, folder: SeedFolder) -> TaskModel:
        """The model with the best weights of a seed.

        Raises:
          InputError: there is none, or its classes are not those of the data.
        """
        with self.strategy.scope():
            model = folder.load_model()
        if model.labels and model.labels != self.labels:
            raise InputError(
                f"The classes of the data must be those that the model was trained with, "
                f"{', '.join(model.labels)}. Received {', '.join(self.labels)}; train with another --output_dir."
            )
        return model

    def evaluate(
        self, role: str, inference: Inference, step: int, *, choose_thresholds: bool = False
    ) -> tuple[dict[str, float], list[Any]]:
        """A model's metrics over the splits of a role, and its predictions for each of them.

        Args:
          role: "dev" or "test".
          inference: runs the model.
          step: the last step that is saved, for the message after a signal.
          choose_thresholds: set the model's thresholds to the best for these splits.

        Raises:
          Preempted: after a signal to stop.
        """
        settings, rows = self.settings, list[dict[str, np.ndarray]]()
        replicas = self.strategy.num_replicas_in_sync
        predictions: list[Any] = []
        for split in self.splits[role]:
            batch_size = -(-settings.eval_batch_size // replicas) * replicas
            batch_size = at_most(len(split.features), batch_size, replicas)
            batches = split_batches(split, batch_size, self.pad_to)
            outputs = by_row(self.preemption.watched(inference(batches), step), len(split.features))
            rows += outputs
            predictions.append(
                self.task.kind.predictions(
                    split, outputs, inference.model, settings.max_answer_length, settings.n_best_size
                )
            )
        if choose_thresholds and inference.model.thresholds:
            predictions, inference.model.thresholds = self.task.kind.with_best_thresholds(predictions)
        metrics = self.task.kind.measure_with_loss(self.task, self.splits[role], predictions, rows)
        return metrics, predictions

    @property
    def pad_to(self) -> int | None:
        """The length of all batches; None for batches of similar lengths, each of which a TPU would compile."""
        pads = self.settings.pad_to_max_length or self.settings.tpu
        return self.preprocessor.max_seq_length if pads else None
