"""The run of an experiment: text -> pretraining runs of all seeds -> measures -> results and plots."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from albert_tf.lab import pictures
from albert_tf.lab.downstream import Downstream
from albert_tf.lab.environment import describe_environment
from albert_tf.lab.experiments import COLUMNS, PROBED, Experiment, PlannedRow
from albert_tf.lab.laboratory import Laboratory, make_folder
from albert_tf.lab.measures import Measures
from albert_tf.lab.paper import AVERAGED_TASKS
from albert_tf.lab.pretraining_runs import PretrainingRuns, evaluations, fork_step, training_seconds
from albert_tf.lab.results import LAB_RESULTS_FILE, Plot, ResultRow, Results, RowComparison, compare_rows
from albert_tf.lab.scales import SCALES, Scale
from albert_tf.lab.settings import LabSettings
from albert_tf.lab.subprocesses import ProgramRunner
from albert_tf.lab.tables import spread_over, write_results
from albert_tf.lab.text import LabText, TextPart
from albert_tf.lab.variants import SentenceObjective, Variant, with_starts
from data_prep.errors import InputError

_PLOTTED = ("masked_lm", "nsp", "sop", "own_sentence", "speed", "worker_speed", "average")


def run_experiment(experiment: Experiment, settings: LabSettings, scale: Scale | None = None) -> Path:
    """Trains and measures what is missing, and rewrites the results after each seed.

    Args:
      experiment: one of EXPERIMENTS.
      settings: the flags.
      scale: replaces the scale that `settings` names.

    Returns:
      The experiment's folder.

    Raises:
      InputError: flags or files are wrong, in which case nothing has been written, or a run failed.
      Preempted: the process received SIGTERM.
    """
    _check_flags(experiment, settings)
    measures_speed = "speed" in experiment.measures
    scale = scale or SCALES[settings.scale]
    with ProgramRunner() as programs:
        lab = Laboratory(settings.resolved(scale), scale, programs)
        runs = PretrainingRuns(LabText(lab))
        variants = with_starts([row.variant for row in experiment.rows])
        text_hash = runs.text.check(*_needed_text(experiment, variants)) if settings.seeds else ""
        for variant in variants:
            runs.check(variant)
        downstream = Downstream(lab)
        downstream.check()
        if settings.seeds:
            lab.open(text_hash)
        folder = lab.folder / experiment.name
        make_folder(folder)
        table = ExperimentTable(
            experiment,
            settings.command(experiment.name),
            lab.fixed_settings(text_hash),
            Measures(runs, downstream),
        )
        if measures_speed and not settings.tpu:
            table.add_speeds()
        if not settings.seeds:
            table.write(folder)
        for seed in range(1, settings.seeds + 1):
            for number, variant in enumerate(variants, 1):
                programs.log(
                    f"{experiment.name}: seed {seed}, model {number} of {len(variants)}: {variant.name}"
                )
                runs.train(variant, seed)
            table.add_seed(seed)
            if measures_speed and settings.tpu:
                table.add_speeds()
            table.write(folder)
    return folder


def _check_flags(experiment: Experiment, settings: LabSettings) -> None:
    """Raises InputError if a flag has no effect, or --seeds=0 would replace the results of trained models."""
    measures_speed = "speed" in experiment.measures
    if not settings.seeds and (not measures_speed or settings.tpu):
        raise InputError(
            "--seeds must be at least 1. Only experiments that measure speed also accept 0, which trains nothing, "
            f"and not on a TPU, where the runs give the speed. Received {settings.seeds} for {experiment.name}."
        )
    if not measures_speed and (settings.speed_workers != 1 or settings.speed_sizes != "scale"):
        raise InputError(
            "--speed_workers and --speed_sizes need an experiment that measures speed. Received "
            f"{settings.speed_workers} and {settings.speed_sizes} for {experiment.name}; leave them out."
        )
    if settings.spm_model_file and settings.vocab_size is not None:
        raise InputError(
            "--vocab_size is for a vocabulary that is trained. Received it with --spm_model_file; omit one."
        )
    folder = settings.folder / experiment.name
    if not settings.seeds and (folder / LAB_RESULTS_FILE).exists() and Results.read(folder).seeds:
        raise InputError(
            f"--seeds=0 measures speed alone. {folder} already has the results of trained models; use another "
            "--output."
        )


def _needed_text(
    experiment: Experiment, variants: list[Variant]
) -> tuple[set[TextPart], set[SentenceObjective]]:
    """The parts of the text and the sentence objectives that an experiment needs."""
    parts: set[TextPart] = {"train", "heldout"}
    if any(variant.text == "part" for variant in variants):
        parts.add("part")
    probed = {objective for objective in PROBED if objective in experiment.measures}
    return parts, {variant.objective for variant in variants} | probed


@dataclass
class ExperimentTable:
    """The measurements of an experiment so far.

    Attributes:
      experiment: what is measured.
      command: the command line.
      settings: the settings that determine the numbers.
      measures: measures the laboratory's runs.
      values: row -> column -> values.
      seeds: the seeds that have been measured.
      notes: sentences in addition to the experiment's, by topic.
    """

    experiment: Experiment
    command: str
    settings: dict[str, Any]
    measures: Measures
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

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

    def write(self, folder: Path) -> None:
        """Writes the pictures, then results.md and results.json, which refer to them."""
        results = self.results()
        plots = []
        if self.seeds:
            path = folder / pictures.CURVES_FILE
            pictures.draw_curves(path, self._curves(), over_time=self.experiment.over_time)
            caption = "Learning curves: mean over seeds; the band spans the lowest to the highest."
            plots.append(Plot(path.name, caption))
        columns = [name for name in _PLOTTED if any(name in row.ours for row in results.rows)]
        pictures.draw_scores(folder / pictures.SCORES_FILE, results, columns)
        caption = f"Our values, with the paper's where it has them. The spread is {spread_over(results)}."
        plots.append(Plot(pictures.SCORES_FILE, caption))
        write_results(folder, dataclasses.replace(results, plots=plots))

    def results(self) -> Results:
        """The results so far, without plots."""
        experiment = self.experiment
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
            scale=self.settings["scale"],
            seeds=self.seeds,
            command=self.command,
            settings={**self.settings, "data": self.measures.runs.text.manifest_hashes()},
            environment=describe_environment(),
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

    def _curves(self) -> list[pictures.Curve]:
        """The evaluations of all models and seeds."""
        return [
            pictures.Curve(row.title, [self._evaluations(row, seed) for seed in self.seeds])
            for row in self.experiment.rows
        ]

    def _evaluations(self, row: PlannedRow, seed: int) -> list[dict]:
        """A run's evaluations, with their hours if they are drawn; a fork's include the one where it starts."""
        runs, variant = self.measures.runs, row.variant
        lines = evaluations(runs.folder(variant, seed))
        if variant.fork and variant.start:
            before = evaluations(runs.folder(variant.start, seed))
            fork = fork_step(runs.steps(variant.start))
            lines = [line for line in before if line["step"] == fork] + lines
        if variant.objective == "none":  # a model without pairs of sentences
            lines = [{k: v for k, v in line.items() if "sentence_order" not in k} for line in lines]
        if not self.experiment.over_time:
            return lines
        hours = training_seconds(runs.folder(variant, seed)) / 3600
        return [{**line, "hours": hours * line["step"] / lines[-1]["step"]} for line in lines]
