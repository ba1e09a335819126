"""The measurements of an experiment's models: column -> values."""

import dataclasses
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from albert_tf.checkpoints.run_files import read_metrics
from albert_tf.lab import speed
from albert_tf.lab.downstream import Downstream
from albert_tf.lab.experiments import PROBED, Experiment, PlannedRow
from albert_tf.lab.paper import AVERAGED_TASKS
from albert_tf.lab.pretraining_runs import PretrainingRuns, evaluations, training_seconds
from albert_tf.lab.scales import PAPER
from albert_tf.lab.sentence_probe import ProbeRequest
from albert_tf.parameters import counted_as_in_the_paper
from data_prep.files import read_json_object

SPEED_REFERENCE = "bert-large"
_PROBE_FILE = "sentence_probe.json"
_EVAL_BATCH = 64  # the batch of evaluations in `albert pretrain`


@dataclass(frozen=True)
class Measures:
    """Measures trained runs; what was measured before is read from files."""

    runs: PretrainingRuns
    downstream: Downstream

    def of_seed(self, experiment: Experiment, row: PlannedRow, seed: int) -> dict[str, float]:
        """The values of a trained run in the columns with one value per seed."""
        run = self.runs.folder(row.variant, seed)
        last = evaluations(run)[-1]
        values = {
            "masked_lm": 100 * last["eval_masked_lm_accuracy"],
            "own_sentence": 100 * last["eval_sentence_order_accuracy"],
            "hours": training_seconds(run) / 3600,
        }
        if set(PROBED) & set(experiment.measures):
            probed = self._probe(row, seed)
            values |= {name: 100 * probed[name]["accuracy"] for name in PROBED}
        checkpoint = self.runs.last_checkpoint(row.variant, seed)
        scores = {task: self.downstream.score(task, run, checkpoint, seed) for task in self.downstream.tasks}
        if set(scores) == set(AVERAGED_TASKS):
            scores["average"] = statistics.fmean(scores.values())
        return {name: value for name, value in values.items() if name in experiment.measures} | scores

    def of_model(self, experiment: Experiment, row: PlannedRow) -> dict[str, list[float]]:
        """The values that do not depend on the seed."""
        values = {
            "parameters": counted_as_in_the_paper(self.runs.config(row.variant)) / 1e6,
            "steps": float(self.runs.steps(row.variant)),
        }
        return {name: [value] for name, value in values.items() if name in experiment.measures}

    def chance(self, row: PlannedRow, seed: int) -> dict[str, float]:
        """The share of the more frequent label in the sentence tasks, in percent."""
        probed = self._probe(row, seed)
        return {name: 100 * probed[name]["chance"] for name in PROBED}

    def speeds(self, experiment: Experiment) -> dict[str, tuple[dict[str, list[float]], str]]:
        """Training throughput relative to BERT-large's: column -> values of each row, how they were measured."""
        lab = self.runs.lab
        if lab.settings.tpu:
            return {"speed": (self._speeds_of_runs(experiment), "Speed is that of the first seed's runs.")}
        step, is_full = self._measured_step(), lab.settings.speed_sizes == "paper"
        configs = {
            row.name: row.variant.config(PAPER, PAPER.vocab_size, step.max_seq_length)
            if is_full
            else self.runs.config(row.variant)
            for row in experiment.rows
        }
        several = lab.settings.speed_workers
        ratios = speed.measure_speeds(
            configs,
            SPEED_REFERENCE,
            step,
            lab.folder / experiment.name,
            lab.programs,
            workers=(1,) if several == 1 else (1, several),
        )
        sizes = "the paper's sizes" if is_full else "this scale's sizes"
        note = (
            f"Speed is that of training steps of {step.batch_size} examples of {step.max_seq_length} tokens in "
            f"{step.dtype}, with {sizes}, on this device, one model after the other in each of several rounds. "
            "The optimizer takes a larger share of a step than in the paper's batches of 4096, which favors "
            "models with fewer parameters."
        )
        columns = {"speed": (ratios[1], note)}
        if several > 1:
            missing = [row.title for row in experiment.rows if row.name not in ratios[several]]
            columns["worker_speed"] = (ratios[several], _worker_note(several, step.batch_size, missing))
        return columns

    def _measured_step(self) -> speed.StepSettings:
        """The step whose speed is measured."""
        lab = self.runs.lab
        B, T = lab.scale.speed_batch
        T = T if lab.settings.speed_sizes == "paper" else min(T, lab.settings.max_seq_length)
        return speed.StepSettings(B, T, lab.settings.mixed_precision or "float32")

    def _speeds_of_runs(self, experiment: Experiment) -> dict[str, list[float]]:
        rates = {
            row.name: statistics.median(
                line["tokens_per_second"]
                for line in read_metrics(self.runs.folder(row.variant, 1))
                if "tokens_per_second" in line
            )
            for row in experiment.rows
        }
        return {name: [rate / rates[SPEED_REFERENCE]] for name, rate in rates.items()}

    def _probe(self, row: PlannedRow, seed: int) -> Mapping[str, Mapping[str, float]]:
        file = self.runs.folder(row.variant, seed) / _PROBE_FILE
        text, lab = self.runs.text, self.runs.lab
        if not file.is_file():
            examples: dict[str, tuple[str, str]] = {
                objective: (text.examples(objective, "train"), text.examples(objective, "heldout"))
                for objective in PROBED
            }
            request = ProbeRequest(
                self.runs.last_checkpoint(row.variant, seed),
                str(file),
                examples,
                lab.scale.probe_examples,
                lab.scale.max_eval_steps * _EVAL_BATCH,
                seed,
            )
            lab.programs.module("albert_tf.lab.sentence_probe", json.dumps(dataclasses.asdict(request)))
        return read_json_object(file)


def _worker_note(workers: int, batch_size: int, missing: list[str]) -> str:
    """How the speed with workers was measured, and which models could not be."""
    note = (
        f"Speed with workers is that of {workers} processes on this machine, which divide its cores among them, "
        f"take {batch_size} examples each and add up their gradients over loopback."
    )
    return f"{note} Could not be trained in {workers} processes: {', '.join(missing)}." if missing else note
