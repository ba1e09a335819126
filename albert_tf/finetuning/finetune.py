"""Fine-tuning, as a story in order: devices, plan, each seed trained, evaluated and predicted with, a table."""

import dataclasses
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from albert_tf.checkpoints.checkpoint_files import say_on_stderr
from albert_tf.checkpoints.run_files import RESULTS_FILE, read_metrics
from albert_tf.finetuning.construction import build_task_model, initial_encoder
from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.finetuning.plan import FinetuningPlan, make_plan
from albert_tf.finetuning.search import Trial, search_learning_rate
from albert_tf.finetuning.seed_folder import (
    SeedFolder,
    results_of_other_seeds,
    results_table,
    run_results,
)
from albert_tf.finetuning.trainer import DivergedError, train_seed
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.tasks.collapse import stuck
from albert_tf.tasks.inference import Inference
from albert_tf.tasks.spans.answers import null_threshold_of
from albert_tf.tasks.splits import by_row
from albert_tf.tasks.task_model import TaskModel
from albert_tf.training.device_flags import at_most, settings_json
from albert_tf.training.devices import Devices, check_agreement, check_memory, make_devices, started_backend
from albert_tf.training.interruptions import Preemption, as_input_errors
from albert_tf.training.run import locked_by_chief
from albert_tf.training.run_place import RunPlace, run_place
from data_prep.console import open_console
from data_prep.errors import InputError
from data_prep.files import write_json

_NOT_SHARED = (
    "--output_dir must be one folder that all workers share. Received {}, in which another worker finds another "
    "state."
)


def finetune(flags: FinetuningFlags) -> dict[str, Any]:
    """Trains, evaluates and predicts one task with one or several seeds; an interrupted run resumes.

    Returns:
      The content of OUTPUT_DIR/results.json (`run_results`).

    Raises:
      InputError: flags, files and checkpoint do not fit each other; then nothing has been written.
      Preempted: after SIGTERM or Ctrl-C; the state is saved.
    """
    with started_backend(flags), run_place(flags.output_dir, flags) as place:
        results = _finetune(flags, place)
    if table := results_table(results):
        open_console(stderr=True).print(table)
    return results


def _finetune(flags: FinetuningFlags, place: RunPlace) -> dict[str, Any]:
    devices = make_devices(flags)
    plan = make_plan(flags, devices.replicas)
    if plan.do_train:
        _check_memory(plan, devices)
    check_agreement(
        devices,
        zlib.crc32(settings_json(plan).encode()),
        "All workers must be started with the same flags. Those of another worker differ.",
    )
    place.share(devices)
    with locked_by_chief(plan.folder, devices), Preemption(devices) as preemption:
        if not flags.searches:
            _check_folders(plan, place)
        initial = initial_encoder(plan) if plan.do_train else None
        if plan.initial:  # the encoder has its arrays now
            plan = dataclasses.replace(plan, initial=dataclasses.replace(plan.initial, weights={}))
        trials: list[Trial] = []
        if flags.searches:
            plan, trials = search_learning_rate(
                plan,
                lambda trial: Finetuning(trial, initial, devices, preemption, place).try_once(),
            )
            _check_folders(plan, place)
        finetuning = Finetuning(plan, initial, devices, preemption, place, _advice(flags))
        seeds = [
            *map(finetuning.run_seed, plan.seed_numbers),
            *results_of_other_seeds(plan.folder, plan.task, plan.seed_numbers),
        ]
        seeds.sort(key=lambda results: results["seed"])
        results = run_results(plan.task, plan.definition.main_metric, seeds)
        if trials:
            results["search"] = [dataclasses.asdict(trial) for trial in trials]
        if devices.is_chief:
            write_json(plan.folder / RESULTS_FILE, results)
    return results


def _check_memory(plan: FinetuningPlan, devices: Devices) -> None:
    """Raises InputError if a batch does not fit into memory."""
    (split,) = plan.data.splits["train"]
    tokens = sum(features["input_ids"].size for features in split.features) / len(split.features)
    stores = not (plan.freeze_encoder or plan.lora_rank)
    rows = plan.train_batch_size // plan.gradient_accumulation_steps
    check_memory(plan, plan.config, devices, rows, tokens, stores)


def _check_folders(plan: FinetuningPlan, place: RunPlace) -> None:
    """Raises InputError if the folder of a seed holds another run; says if its weights are best on other data."""
    warnings = set[str | None]()
    for seed in plan.seed_numbers:
        folder = SeedFolder.of(plan.folder, seed)
        if plan.do_train:
            folder.check(_of_seed(plan, folder, seed), plan.data.examples_sha256)
        warnings.add(folder.warning_of_another_dev_set(plan))
    for warning in filter(None, warnings):
        say_on_stderr(place.named(warning))


def _of_seed(plan: FinetuningPlan, folder: SeedFolder, seed: int) -> FinetuningPlan:
    """The plan of a seed: after each failed training its learning rate is half as high."""
    rate = plan.learning_rate / 2 ** len(folder.failures)
    return dataclasses.replace(plan, seed=seed, learning_rate=rate)


def _advice(flags: FinetuningFlags) -> str:
    """What may help if a seed fails, besides what these flags try."""
    search = "" if flags.searches else ", --learning_rate=search"
    return f"try a lower --learning_rate{search} or --restarts={flags.restarts + 2}"


class Finetuning:
    """What a plan does with each of its seeds. All workers do the same; the chief alone writes."""

    def __init__(
        self,
        plan: FinetuningPlan,
        initial: AlbertEncoder | None,
        devices: Devices,
        preemption: Preemption,
        place: RunPlace,
        advice: str = "",
    ):
        """Says what will be done.

        Args:
          plan: of the run.
          initial: the encoder to start from.
          devices: share every batch.
          preemption: asked between steps whether to save and stop.
          place: where the run is kept.
          advice: what to do if the model learns nothing; without it, evaluations on the way do not say so.
        """
        self._plan, self._initial, self._devices = plan, initial, devices
        self._preemption, self._place = preemption, place
        self._writes, self._advice = devices.is_chief, advice
        if plan.do_train:
            say_on_stderr(str(plan))

    def run_seed(self, seed: int) -> dict[str, Any]:
        """Trains one seed, unless its training is finished, then evaluates and predicts with its best weights.

        Returns:
          "seed", "steps" and "best_step" of its training, its metrics by role, and if it failed why: "failed".
        """
        folder = SeedFolder.of(self._plan.folder, seed)
        if len(self._plan.seed_numbers) > 1:
            say_on_stderr(f"seed {seed}")
        while True:
            left = self._plan.restarts - len(folder.failures) if self._plan.do_train else 0
            results = self._attempt(folder, seed, raises=left <= 0)
            if "failed" not in results:
                return results
            what_next = self._advice if left <= 0 else "it begins again at half the learning rate"
            say_on_stderr(f"warning: seed {seed} failed: {results['failed']}; {what_next}")
            if left <= 0:
                return results
            self._written_by_chief(folder.set_aside)

    def try_once(self) -> dict[str, Any]:
        """The results of the only seed, of which no model is kept; a training that is finished is not repeated."""
        (seed,) = self._plan.seed_numbers
        folder = SeedFolder.of(self._plan.folder, seed)
        _check_folders(self._plan, self._place)
        is_done = (folder.path / RESULTS_FILE).exists()
        check_agreement(self._devices, int(is_done), _NOT_SHARED.format(folder.path))
        if not is_done:
            self._attempt(folder, seed, raises=False)
            self._written_by_chief(folder.drop_model)
        return folder.read_results()

    def _attempt(self, folder: SeedFolder, seed: int, *, raises: bool) -> dict[str, Any]:
        """Trains one seed and uses its model; if training diverges, the results say so unless it `raises`."""
        try:
            with as_input_errors(folder.path):
                if self._plan.do_train:
                    self._train(folder, seed)
                return {"seed": seed, **self._evaluate_and_predict(folder)}
        except DivergedError:
            if raises:
                raise
            results = {"seed": seed, "failed": "training diverged"}
            self._written_by_chief(lambda: folder.write_results(results))
            return results

    def _written_by_chief(self, write: Callable[[], None]) -> None:
        """Changes the folder of a seed while no worker reads it."""
        check_agreement(self._devices, 0, "")
        if self._writes:
            write()
            self._place.push()
        check_agreement(self._devices, 0, "")
        self._place.share(self._devices)

    def _train(self, folder: SeedFolder, seed: int) -> None:
        """Trains one seed to its end, resuming if it was interrupted."""
        is_trained = folder.is_trained
        check_agreement(self._devices, int(is_trained), _NOT_SHARED.format(folder.path))
        if is_trained:
            say_on_stderr(self._place.named(f"{folder.path} is already trained"))
            return
        plan = _of_seed(self._plan, folder, seed)
        assert self._initial, "there is one with --do_train"
        with self._devices.scope():
            model = build_task_model(plan, self._initial)
        if self._writes:
            folder.create(plan, plan.preprocessor.vocabulary, plan.data.examples_sha256)
        inference = Inference(model, self._devices)
        warns = bool(self._advice)

        def evaluate(step: int) -> dict[str, float]:
            nonlocal warns
            metrics, predictions = self._evaluate("dev", inference, step, choose_thresholds=True)
            if warns and step > plan.num_warmup_steps and (seen := self._collapse(predictions)):
                warns = False
                say_on_stderr(f"warning: dev at step {step}: {seen}; {self._advice}")
            return {f"eval_{name}": value for name, value in metrics.items()}

        facts = train_seed(
            model,
            plan,
            folder,
            self._preemption,
            evaluate if plan.do_eval else None,
            self._devices,
            self._place,
        )
        if self._writes:
            folder.finish_training({"seed": seed, **facts, **self._stuck(folder)})
        check_agreement(self._devices, facts["steps"], _NOT_SHARED.format(folder.path))  # waits for the chief
        self._place.share(self._devices)

    def _evaluate_and_predict(self, folder: SeedFolder) -> dict[str, Any]:
        """Evaluates and predicts with the best weights of a seed; returns and writes its results."""
        results = folder.read_results()
        if folder.failures:
            results["restarts"] = folder.history()
        failed = results.pop("failed", "")
        inference = Inference(self._load_model(folder), self._devices)
        for role in ("dev", "test"):
            if role not in self._plan.data.splits:
                continue
            metrics, predictions = self._evaluate(role, inference, results.get("steps", 0))
            if role == "dev":
                failed = self._collapse(predictions)
            if metrics:
                results[role] = metrics
            elif role == "test":
                results.pop(role, None)  # of an earlier test set
                self._explain_missing_metrics(role)
            if self._writes:
                threshold = null_threshold_of(results)
                for split, found in zip(self._plan.data.splits[role], predictions, strict=True):
                    self._plan.definition.kind.keep(folder.path, split.name, found, threshold)
        if failed := failed or results.get("stuck", ""):
            results["failed"] = failed
        if self._writes:
            folder.write_results(results)
            self._place.push()
        return results

    def _collapse(self, predictions: Sequence[Any]) -> str:
        """What shows that the model has learned nothing, in its predictions of the dev set."""
        return self._plan.definition.kind.collapse(self._plan.data.splits["dev"], predictions)

    def _stuck(self, folder: SeedFolder) -> dict[str, str]:
        """What shows that the model has learned nothing, in the losses of its training: "stuck", or nothing."""
        if self._plan.init_adapters:  # the head of a model that is trained comes with them
            return {}
        kind = self._plan.definition.kind
        labels = [
            kind.label(example) for split in self._plan.data.splits["train"] for example in split.examples
        ]
        losses = [line["loss"] for line in read_metrics(folder.path) if "loss" in line]
        seen = stuck(losses, math.inf if self._plan.class_weights else kind.loss_of_guess(labels))
        return {"stuck": seen} if seen else {}

    def _load_model(self, folder: SeedFolder) -> TaskModel:
        """The model with the best weights of a seed; InputError if its classes are not those of the data."""
        with self._devices.scope():
            model = folder.load_model()
        labels = self._plan.data.labels
        if model.labels and model.labels != labels:
            raise InputError(
                f"The classes of the data must be those that the model was trained with, "
                f"{', '.join(model.labels)}. Received {', '.join(labels)}; train with another --output_dir."
            )
        return model

    def _evaluate(
        self, role: str, inference: Inference, step: int, *, choose_thresholds: bool = False
    ) -> tuple[dict[str, float], list[Any]]:
        """A model's metrics over the splits of a role, and its predictions for each of them.

        Args:
          role: "dev" or "test".
          inference: runs the model.
          step: the last step that is saved, for the message after a signal.
          choose_thresholds: set the model's thresholds to the best for these splits.
        """
        plan, kind, model = self._plan, self._plan.definition.kind, inference.model
        splits, replicas = plan.data.splits[role], self._devices.replicas
        rows: list[dict[str, np.ndarray]] = []
        predictions: list[Any] = []
        for split in splits:
            batch_size = -(-plan.eval_batch_size // replicas) * replicas
            batch_size = at_most(len(split.features), batch_size, replicas)
            batches = inference(plan.batches(split, batch_size))
            outputs = by_row(self._preemption.watched(batches, step), len(split.features))
            rows += outputs
            predictions.append(
                kind.predictions(split, outputs, model, plan.max_answer_length, plan.n_best_size)
            )
        if choose_thresholds and model.thresholds:
            predictions, model.thresholds = kind.with_best_thresholds(predictions)
        return kind.measure_with_loss(plan.definition, splits, predictions, rows), predictions

    def _explain_missing_metrics(self, role: str) -> None:
        """Says why a set whose labels are known in part has no metrics."""
        examples = [example for split in self._plan.data.splits[role] for example in split.examples]
        labels = list(map(self._plan.definition.kind.label, examples))
        if 0 < (missing := labels.count(None)) < len(labels):
            say_on_stderr(
                f"warning: {role}: no metrics, because {missing:,} of {len(labels):,} rows have no label"
            )
