"""The run of an experiment: text -> pretraining runs of all seeds -> measures -> results and pictures."""

import dataclasses
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report import describe_machine
from data_prep.errors import InputError
from experiments.metrics import evaluations, training_seconds
from experiments.paper import pictures
from experiments.paper.experiments import COLUMNS, PROBED, Experiment, PlannedRow
from experiments.paper.laboratory import Laboratory, LabSettings, fork_step
from experiments.paper.measures import Measures
from experiments.paper.models import Scale, with_starts
from experiments.paper.numbers import AVERAGED_TASKS
from experiments.paper.results import RESULTS_FILE, Plot, ResultRow, Results, RowComparison, compare_rows

_PLOTTED = ("masked_lm", "nsp", "sop", "own_sentence", "speed", "worker_speed", "average")
_PANELS = {
    "eval_masked_lm_accuracy": "masked-LM accuracy, held out",
    "eval_sentence_order_accuracy": "sentence accuracy, held out",
}


def run_experiment(
    experiment: Experiment, settings: LabSettings, scale: Scale | None = None, command: str = ""
) -> Results:
    """Trains and measures what is missing, and writes the results after each seed.

    Args:
      experiment: one of EXPERIMENTS.
      settings: the flags.
      scale: replaces the scale that `settings` names.
      command: the command line.

    Raises:
      InputError: flags or files are wrong, in which case nothing has been written.
      SystemExit: a run failed or was interrupted; the same call resumes it.
    """
    _check_flags(experiment, settings)
    lab = Laboratory(settings, settings.scaled(scale))
    variants = with_starts([row.variant for row in experiment.rows])
    table = ExperimentTable(experiment, command, Measures(lab))
    table.measures.check_tasks()
    if settings.seeds:
        lab.open(part_of_text=any(variant.text == "part" for variant in variants))
    folder = lab.folder / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    measures_speed = "speed" in experiment.measures
    if measures_speed and not settings.tpu:
        table.add_speeds()
    for seed in range(1, settings.seeds + 1):
        for number, variant in enumerate(variants, 1):
            title = f"{experiment.name}: seed {seed}, model {number} of {len(variants)}: {variant.name}"
            print(title, file=sys.stderr, flush=True)
            lab.train(variant, seed)
        table.add_seed(seed)
        if measures_speed and settings.tpu:
            table.add_speeds()
        table.write(folder)
    return table.write(folder)


def _check_flags(experiment: Experiment, settings: LabSettings) -> None:
    """Raises InputError if --seeds=0 measures nothing, or would replace the results of trained models."""
    measures_speed = "speed" in experiment.measures and not settings.tpu
    if not settings.seeds and not measures_speed:
        raise InputError(
            "--seeds must be at least 1. Only experiments that measure speed also accept 0, which trains nothing, "
            f"and not on a TPU, where the runs give the speed. Received {settings.seeds} for {experiment.name}."
        )
    folder = settings.output / experiment.name
    if not settings.seeds and (folder / RESULTS_FILE).exists() and Results.read(folder).seeds:
        raise InputError(
            f"--seeds=0 measures speed alone. {folder} already has the results of trained models; use another "
            "--output."
        )


@dataclass
class ExperimentTable:
    """The measurements of an experiment so far.

    Attributes:
      experiment: what is measured.
      command: the command line.
      measures: measures the laboratory's runs.
      values: row -> column -> values.
      seeds: the seeds that have been measured.
      notes: sentences in addition to the experiment's, by topic.
    """

    experiment: Experiment
    command: str
    measures: Measures
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def lab(self) -> Laboratory:
        """The laboratory."""
        return self.measures.lab

    def add_seed(self, seed: int) -> None:
        """Measures all models of a seed, which must be trained."""
        for row in self.experiment.rows:
            values = self.values.setdefault(row.name, {})
            values |= self.measures.of_model(self.experiment, row)
            for name, value in self.measures.of_seed(self.experiment, row, seed).items():
                values.setdefault(name, []).append(value)
        if set(PROBED) & set(self.experiment.measures):
            chance = self.measures.chance(self.experiment.rows[0], seed)
            shares = ", ".join(f"{name.upper()} {value:.1f}%" for name, value in chance.items())
            self.notes["chance"] = f"By chance: {shares}"
        self.seeds.append(seed)

    def add_speeds(self) -> None:
        """Measures how fast the models train, on one device and, if requested, with workers."""
        for column, (values, note) in self.measures.speeds(self.experiment).items():
            self.notes[column] = note
            for name, of_row in values.items():
                self.values.setdefault(name, {})[column] = of_row

    def write(self, folder: Path) -> Results:
        """Writes the pictures, then results.md and results.json, which refer to them."""
        results, plots = self._results(), []
        if self.seeds:
            curves = {
                row.title: [self._points(row, seed) for seed in self.seeds] for row in self.experiment.rows
            }
            x = "hours" if self.experiment.over_time else "step"
            pictures.draw_curves(folder / "curves.png", curves, x, _PANELS)
            caption = "Learning curves: mean over seeds; the band spans the lowest to the highest."
            plots.append(Plot("curves.png", caption))
        columns = [name for name in _PLOTTED if any(name in row.ours for row in results.rows)]
        pictures.draw_scores(folder / "scores.png", results, columns)
        caption = "Our values with their standard deviation, and the paper's where it has them."
        plots.append(Plot("scores.png", caption))
        results = dataclasses.replace(results, plots=plots)
        results.write(folder)
        return results

    def _results(self) -> Results:
        """The results so far, without plots."""
        experiment, lab = self.experiment, self.lab
        rows = [ResultRow(row.name, row.title, row.paper, self.values[row.name]) for row in experiment.rows]
        measured = {name for row in rows for name in row.ours}
        optional = [name for name in ("worker_speed", *AVERAGED_TASKS) if name in measured]
        # The paper's average appears even without ours, because it ranks the models.
        shown = [*experiment.measures, *optional, "average"]
        return Results(
            experiment=experiment.name,
            title=experiment.title,
            paper=experiment.paper,
            question=experiment.question,
            scale=lab.settings.scale,
            seeds=self.seeds,
            command=self.command,
            settings=lab.conditions(),
            environment=describe_machine(),
            columns=[COLUMNS[name] for name in shown],
            rows=rows,
            comparisons=self._comparisons(rows),
            notes=[*experiment.notes, *self.notes.values()],
        )

    def _comparisons(self, rows: list[ResultRow]) -> list[RowComparison]:
        """The paper's claims, checked in their own columns and, if all five tasks are measured, in the average."""
        claims = [claim for claim in self.experiment.claims if claim.column != "average"]
        if any("average" in row.ours for row in rows):
            claims += [
                dataclasses.replace(claim, column="average", paper_column="average")
                for claim in self.experiment.claims
                if claim.paper_column == "average"
            ]
        found = (
            compare_rows(rows, claim.row, claim.than, claim.column, claim.paper_column)
            for claim in dict.fromkeys(claims)
        )
        return [comparison for comparison in found if comparison]

    def _points(self, row: PlannedRow, seed: int) -> list[dict[str, Any]]:
        """A run's evaluations, with their hours; a fork's include the one where it starts."""
        lab, variant = self.lab, row.variant
        has_pairs = variant.objective != "none"
        lines = evaluations(lab.run(variant, seed), has_pairs)
        if variant.fork and variant.start:
            fork, before = (
                fork_step(lab.steps(variant.start)),
                evaluations(lab.run(variant.start, seed), has_pairs),
            )
            lines = [*(line for line in before if line["step"] == fork), *lines]
        hours = training_seconds(lab.run(variant, seed)) / 3600
        return [{**line, "hours": hours * line["step"] / lines[-1]["step"]} for line in lines]
