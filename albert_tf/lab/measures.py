"""What is measured of an experiment's models: names of columns to values of one seed, or of all."""

import dataclasses
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from albert_tf.lab import speed
from albert_tf.lab.downstream import Downstream
from albert_tf.lab.experiments import PROBED, Experiment, PlannedRow
from albert_tf.lab.paper import TASKS
from albert_tf.lab.runs import LabRuns, evaluations, training_seconds
from albert_tf.lab.scales import PAPER
from albert_tf.lab.sentence_probe import ProbeRequest
from albert_tf.parameters import counted_as_in_the_paper
from albert_tf.training.metrics_file import read_metrics

SPEED_REFERENCE = "bert-large"
_PROBE_FILE = "sentence_probe.json"
_EVAL_BATCH = 64  # of `albert pretrain`


@dataclass(frozen=True)
class Measures:
    """Measures what is not measured yet.

    Attributes:
      runs: of the laboratory.
      downstream: of the laboratory.
    """

    runs: LabRuns
    downstream: Downstream

    def of_seed(self, experiment: Experiment, row: PlannedRow, seed: int) -> dict[str, float]:
        """The values of a trained run, in the columns that have one a seed."""
        run = self.runs.folder(row.variant, seed)
        last = evaluations(run)[-1]
        values = {
            "masked_lm": 100 * last["eval_masked_lm_accuracy"],
            "own_sentence": 100 * last["eval_sentence_order_accuracy"],
            "hours": training_seconds(run) / 3600,
        }
        if set(PROBED) & set(experiment.measures):
            probed = self._probe(run, seed)
            values |= {name: 100 * probed[name]["accuracy"] for name in PROBED}
        scores = {task: self.downstream.score(task, run, seed) for task in self.downstream.tasks}
        if set(scores) == set(TASKS):
            scores["average"] = statistics.fmean(scores.values())
        return {name: value for name, value in values.items() if name in experiment.measures} | scores

    def of_model(self, experiment: Experiment, row: PlannedRow) -> dict[str, list[float]]:
        """The values that no seed changes."""
        values = {
            "parameters": counted_as_in_the_paper(self.runs.config(row.variant)) / 1e6,
            "steps": float(self.runs.steps(row.variant)),
        }
        return {name: [value] for name, value in values.items() if name in experiment.measures}

    def chance(self, row: PlannedRow, seed: int) -> dict[str, float]:
        """What the more frequent label alone would get on the sentence tasks, in percent."""
        probed = self._probe(self.runs.folder(row.variant, seed), seed)
        return {name: 100 * probed[name]["chance"] for name in PROBED}

    def speeds(self, experiment: Experiment) -> tuple[dict[str, list[float]], str]:
        """Training throughput of each row as a ratio to BERT-large's, and a sentence on how it was measured."""
        settings, scale = self.runs.text.settings, self.runs.text.scale
        if settings.tpu:
            return self._speeds_of_runs(experiment), "Speed is that of the first seed's runs."
        B, T = scale.speed_batch
        of_speed = speed.SpeedSettings(B, T, settings.mixed_precision or "float32")
        scaled = {row.name: self.runs.config(row.variant) for row in experiment.rows}
        full = {row.name: row.variant.config(PAPER, PAPER.vocab_size, T) for row in experiment.rows}
        is_full = settings.speed_sizes == "paper" or (
            settings.speed_sizes == "auto" and speed.fits(full, SPEED_REFERENCE, of_speed)
        )
        if not is_full:
            of_speed = dataclasses.replace(of_speed, max_seq_length=min(T, settings.max_seq_length or T))
        ratios = speed.measure_ratios(
            full if is_full else scaled,
            SPEED_REFERENCE,
            of_speed,
            settings.folder / experiment.name,
            self.runs.text.programs,
        )
        sizes = "the paper's sizes" if is_full else "this scale's sizes"
        return ratios, (
            f"Speed is of steps of {B} examples of {of_speed.max_seq_length} tokens in {of_speed.dtype}, with "
            f"{sizes}, on this device, each model in turns with BERT-large; one value a turn. The optimizer's "
            "share of a step is larger than in the paper's batches of 4096, which favors fewer parameters."
        )

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

    def _probe(self, run: Path, seed: int) -> Mapping[str, Mapping[str, float]]:
        file, text = run / _PROBE_FILE, self.runs.text
        if not file.is_file():
            examples: dict[str, tuple[str, str]] = {
                objective: (text.examples(objective, "train"), text.examples(objective, "heldout"))
                for objective in PROBED
            }
            request = ProbeRequest(
                str(run),
                str(file),
                examples,
                text.scale.probe_examples,
                text.scale.max_eval_steps * _EVAL_BATCH,
                seed,
            )
            text.programs.module("albert_tf.lab.sentence_probe", json.dumps(dataclasses.asdict(request)))
        return json.loads(file.read_text(encoding="utf-8"))
