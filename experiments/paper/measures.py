"""The measurements of trained models: column -> values. What was measured before is read from files."""

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.run_files import RESULTS_FILE, read_metrics
from albert_tf.parameters import counted_as_in_the_paper
from albert_tf.tasks.scores import task_score
from albert_tf.tasks.task import find_task
from benchmarks.processes import albert, run
from data_prep.errors import InputError
from data_prep.files import read_json_object
from experiments.metrics import evaluations, training_seconds
from experiments.paper.experiments import PROBED, Experiment, PlannedRow
from experiments.paper.laboratory import Laboratory
from experiments.paper.models import PAPER
from experiments.paper.numbers import AVERAGED_TASKS
from experiments.paper.speed import StepSettings, measure_speeds

SPEED_REFERENCE = "bert-large"
_EVAL_BATCH = 64  # the batch of evaluations in `albert pretrain`
_BATCH, _DROPOUT = 32, 0.1  # for small encoders, which the paper's Table 14 does not suit


@dataclass(frozen=True)
class Measures:
    """Measures the trained runs of a laboratory."""

    lab: Laboratory

    def of_model(self, experiment: Experiment, row: PlannedRow) -> dict[str, list[float]]:
        """The values that do not depend on the seed."""
        values = {
            "parameters": counted_as_in_the_paper(self.lab.config(row.variant)) / 1e6,
            "steps": float(self.lab.steps(row.variant)),
        }
        return {name: [value] for name, value in values.items() if name in experiment.measures}

    def of_seed(self, experiment: Experiment, row: PlannedRow, seed: int) -> dict[str, float]:
        """The values of a trained run in the columns with one value per seed."""
        folder = self.lab.run(row.variant, seed)
        last = evaluations(folder)[-1]
        values = {
            "masked_lm": 100 * last["eval_masked_lm_accuracy"],
            "own_sentence": 100 * last["eval_sentence_order_accuracy"],
            "hours": training_seconds(folder) / 3600,
        }
        if set(PROBED) & set(experiment.measures):
            values |= {name: 100 * found["accuracy"] for name, found in self._probe(row, seed).items()}
        scores = {task: self._score(task, row, seed) for task in AVERAGED_TASKS if self._data_of(task)}
        if set(scores) == set(AVERAGED_TASKS):
            scores["average"] = statistics.fmean(scores.values())
        return {name: value for name, value in values.items() if name in experiment.measures} | scores

    def chance(self, row: PlannedRow, seed: int) -> dict[str, float]:
        """The share of the more frequent label in the sentence tasks, in percent."""
        return {name: 100 * found["chance"] for name, found in self._probe(row, seed).items()}

    def check_tasks(self) -> None:
        """Raises InputError if a flag names a folder without the data of its tasks."""
        for flag, tasks, files in (
            ("glue_dir", ("sst-2", "mnli"), "SST-2/train.tsv or MNLI/train.tsv"),
            ("squad_dir", ("squad1.1", "squad2.0"), "train-v1.1.json and dev-v1.1.json, or those of v2.0"),
            ("race_dir", ("race",), "RACE as downloaded, with its folder train"),
        ):
            folder = getattr(self.lab.settings, flag)
            if folder and not any(map(self._data_of, tasks)):
                raise InputError(f"--{flag} must hold {files}. Received {folder}, which does not.")

    def speeds(self, experiment: Experiment) -> dict[str, tuple[dict[str, list[float]], str]]:
        """Training throughput relative to BERT-large's: column -> values of each row, how they were measured."""
        lab = self.lab
        if lab.settings.tpu:
            return {"speed": (self._speeds_of_runs(experiment), "Speed is that of the first seed's runs.")}
        is_full, workers = lab.settings.speed_sizes == "paper", lab.settings.speed_workers
        B, T = lab.scale.speed_batch
        T = T if is_full else min(T, lab.scale.max_seq_length)
        step = StepSettings(B, T, lab.settings.mixed_precision or "float32")
        configs = {
            row.name: row.variant.config(PAPER, PAPER.vocab_size, T) if is_full else lab.config(row.variant)
            for row in experiment.rows
        }
        ratios = measure_speeds(
            configs, SPEED_REFERENCE, step, lab.folder / experiment.name, sorted({1, workers})
        )
        sizes = "the paper's sizes" if is_full else "this scale's sizes"
        note = (
            f"Speed is that of training steps of {B} examples of {T} tokens in {step.dtype}, with {sizes}, on "
            "this device, in rounds of all models. The optimizer takes a larger share of a step than in the "
            "paper's batches of 4096, which favors models with fewer parameters."
        )
        columns = {"speed": (ratios[1], note)}
        if workers > 1:
            note = (
                f"Speed with workers is that of {workers} processes on this machine, which divide its cores among "
                f"them, take {B} examples each and add up their gradients over loopback."
            )
            missing = [row.title for row in experiment.rows if row.name not in ratios[workers]]
            if missing:
                note += f" Could not be trained in {workers} processes: {', '.join(missing)}."
            columns["worker_speed"] = (ratios[workers], note)
        return columns

    def _speeds_of_runs(self, experiment: Experiment) -> dict[str, list[float]]:
        rates = {}
        for row in experiment.rows:
            lines = read_metrics(self.lab.run(row.variant, 1))
            found = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
            rates[row.name] = statistics.median(found)
        return {name: [rate / rates[SPEED_REFERENCE]] for name, rate in rates.items()}

    def _probe(self, row: PlannedRow, seed: int) -> Mapping[str, Mapping[str, float]]:
        lab, T = self.lab, self.lab.scale.max_seq_length
        file = lab.run(row.variant, seed) / "sentence_probe.json"
        if not file.is_file():
            request = {
                "checkpoint": str(lab.checkpoint(row.variant, seed)),
                "output": str(file),
                "examples": {
                    objective: [lab.examples(objective, part, T) for part in ("train", "heldout")]
                    for objective in PROBED
                },
                "train_examples": lab.scale.probe_examples,
                "test_examples": lab.scale.max_eval_steps * _EVAL_BATCH,
                "seed": seed,
            }
            run("experiments.paper.sentence_probe", json.dumps(request))
        return read_json_object(file)

    def _data_of(self, task: str) -> dict[str, Path] | None:
        """The flags of `albert finetune` that name a task's data; None without data."""
        settings = self.lab.settings
        is_squad = task.startswith("squad")
        folder = (
            settings.squad_dir if is_squad else settings.race_dir if task == "race" else settings.glue_dir
        )
        if folder is None:
            return None
        if is_squad:
            version = task.removeprefix("squad")
            flags = {f"{part}_file": folder / f"{part}-v{version}.json" for part in ("train", "dev")}
            return flags if all(file.is_file() for file in flags.values()) else None
        if task == "race":
            return {"data_dir": folder} if any(folder.rglob("train")) else None
        folder = folder / find_task(task).folder
        return {"data_dir": folder} if (folder / "train.tsv").is_file() else None

    def _score(self, task: str, row: PlannedRow, seed: int) -> float:
        """A task's score on its dev set in percent; fine-tunes unless that has been done."""
        lab = self.lab
        output = lab.run(row.variant, seed) / "finetuned" / task
        if not (output / RESULTS_FILE).is_file():
            recipe: dict[str, Any] = {}  # the paper's Table 14
            if lab.scale.finetuning:
                epochs, rate = lab.scale.finetuning[task]
                recipe = {"num_train_epochs": epochs, "learning_rate": rate, "train_batch_size": _BATCH}
                recipe |= {"dropout": _DROPOUT, "max_seq_length": lab.scale.max_seq_length}
            checkpoint = lab.checkpoint(row.variant, seed)
            files = {**(self._data_of(task) or {}), "init_checkpoint": checkpoint, "output_dir": output}
            words = ("--do_train", "--do_eval")
            albert("finetune", *words, task=task, seed=seed, **files, **recipe, **lab.devices)
        metrics = read_json_object(output / RESULTS_FILE)["dev"]
        values = {name: spread["median"] for name, spread in metrics.items()}
        if task == "mnli":  # the paper's tables have only the matched part
            values = {"accuracy": values["accuracy_m"]}
        return task_score(find_task(task), values)
