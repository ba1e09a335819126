"""An experiment, run: text -> runs of all seeds -> measures -> results.json, results.md and pictures."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from albert_tf.lab import pictures
from albert_tf.lab.downstream import Downstream
from albert_tf.lab.environment import describe_environment
from albert_tf.lab.experiments import COLUMNS, PROBED, Experiment, PlannedRow
from albert_tf.lab.laboratory import fixed_settings, make_folder, open_laboratory
from albert_tf.lab.markdown import MARKDOWN_FILE, markdown
from albert_tf.lab.measures import Measures
from albert_tf.lab.paper import TASKS
from albert_tf.lab.programs import Programs
from albert_tf.lab.results import Plot, Results, Row, compare
from albert_tf.lab.runs import LabRuns, evaluations, fork_step, training_seconds
from albert_tf.lab.scales import SCALES, Scale
from albert_tf.lab.settings import LabSettings
from albert_tf.lab.text import LabText, Part
from albert_tf.lab.variants import Objective, Variant, with_starts
from data_prep.errors import InputError
from data_prep.files import write_text

_SCORES = ("masked_lm", "nsp", "sop", "own_sentence", "speed", "average")


def run_experiment(experiment: Experiment, settings: LabSettings, scale: Scale | None = None) -> Path:
    """Trains and measures what is not there yet, and writes the results, anew after each seed.

    Args:
      experiment: one of EXPERIMENTS.
      settings: flags.
      scale: in place of the one that `settings` names.

    Returns:
      The experiment's folder.

    Raises:
      InputError: flags or files are wrong; then nothing has been written. Or a run failed.
      Preempted: there was a SIGTERM.
    """
    if not settings.seeds and ("speed" not in experiment.measures or settings.tpu):
        raise InputError(
            "--seeds must be at least 1; 0, which trains nothing, is for an experiment that measures speed, and "
            f"on a TPU that is the runs' speed. Received {settings.seeds} for {experiment.name}."
        )
    scale = scale or SCALES[settings.scale]
    given, settings = settings, settings.resolved(scale)
    with Programs() as programs:
        text = LabText(settings, scale, programs)
        runs = LabRuns(text)
        variants = with_starts([row.variant for row in experiment.rows])
        text_hash = text.check(*_asked_of_text(experiment, variants))
        for variant in variants:
            runs.check(variant)
        open_laboratory(settings, text_hash)
        folder = settings.folder / experiment.name
        make_folder(folder)
        measures = Measures(runs, Downstream(settings, scale, programs))
        table = Table(
            experiment, given.command(experiment.name), fixed_settings(settings, text_hash), measures
        )
        if "speed" in experiment.measures and not settings.tpu:
            table.add_speeds()
        if not settings.seeds:
            write_experiment(folder, table)
        for seed in range(1, settings.seeds + 1):
            for number, variant in enumerate(variants, 1):
                programs.say(
                    f"{experiment.name}: seed {seed}, model {number} of {len(variants)}: {variant.name}"
                )
                runs.train(variant, seed)
            table.add_seed(seed)
            if "speed" in experiment.measures and settings.tpu:
                table.add_speeds()
            write_experiment(folder, table)
    return folder


def _asked_of_text(experiment: Experiment, variants: list[Variant]) -> tuple[set[Part], set[Objective]]:
    parts: set[Part] = {"train", "heldout"}
    if any(variant.text == "part" for variant in variants):
        parts.add("part")
    probed = {objective for objective in PROBED if objective in experiment.measures}
    return parts, {variant.objective for variant in variants} | probed


@dataclass
class Table:
    """What is measured so far.

    Attributes:
      experiment: whose table it is.
      command: as it was typed.
      settings: that fix the numbers.
      measures: of the laboratory.
      values: row -> column -> values.
      seeds: that have been measured.
      notes: in addition to the experiment's.
    """

    experiment: Experiment
    command: str
    settings: dict[str, Any]
    measures: Measures
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    def add_seed(self, seed: int) -> None:
        """Measures all models of a seed, which are trained."""
        for row in self.experiment.rows:
            values = self.values.setdefault(row.name, {})
            values |= self.measures.of_model(self.experiment, row)
            for name, value in self.measures.of_seed(self.experiment, row, seed).items():
                values.setdefault(name, []).append(value)
        if set(PROBED) & set(self.experiment.measures):
            chance = self.measures.chance(self.experiment.rows[0], seed)
            self.notes["chance"] = "By chance: " + ", ".join(
                f"{name.upper()} {value:.1f}%" for name, value in chance.items()
            )
        self.seeds.append(seed)

    def add_speeds(self) -> None:
        """Measures how fast the models train."""
        ratios, self.notes["speed"] = self.measures.speeds(self.experiment)
        for name, values in ratios.items():
            self.values.setdefault(name, {})["speed"] = values

    def results(self) -> Results:
        """As they are now."""
        experiment = self.experiment
        rows = [Row(row.name, row.title, row.paper, self.values[row.name]) for row in experiment.rows]
        measured = {name for row in rows for name in row.ours}
        # The paper's average stands beside our own measures, for what it says of the models' order.
        shown = [*experiment.measures, *(task for task in TASKS if task in measured), "average"]
        claims = [claim for claim in experiment.claims if claim.column != "average"]
        claims += [
            dataclasses.replace(claim, column="average", paper_column="average")
            for claim in experiment.claims
            if "average" in measured and claim.paper_column == "average"
        ]
        comparisons = (
            compare(rows, claim.row, claim.than, claim.column, claim.paper_column)
            for claim in dict.fromkeys(claims)
        )
        return Results(
            experiment=experiment.name,
            title=experiment.title,
            paper=experiment.paper,
            question=experiment.question,
            scale=self.settings["scale"],
            seeds=self.seeds,
            command=self.command,
            settings={**self.settings, "data": self.measures.runs.text.facts()},
            environment=describe_environment(),
            columns=[COLUMNS[name] for name in shown],
            rows=rows,
            comparisons=[comparison for comparison in comparisons if comparison],
            notes=[*experiment.notes, *self.notes.values()],
        )

    def curves(self) -> list[pictures.Curve]:
        """The evaluations of all models and seeds."""
        return [
            pictures.Curve(row.title, [self._evaluations(row, seed) for seed in self.seeds])
            for row in self.experiment.rows
        ]

    def _evaluations(self, row: PlannedRow, seed: int) -> list[dict]:
        """With the hours of training before each; a fork's begin at the last one before it."""
        runs, variant = self.measures.runs, row.variant
        lines = evaluations(runs.folder(variant, seed))
        if variant.fork and variant.start:
            before = evaluations(runs.folder(variant.start, seed))
            fork = fork_step(runs.steps(variant.start))
            lines = [line for line in before if line["step"] == fork] + lines
        hours = training_seconds(runs.folder(variant, seed)) / 3600
        if variant.objective == "none":  # a model without pairs of sentences
            lines = [{k: v for k, v in line.items() if "sentence_order" not in k} for line in lines]
        return [{**line, "hours": hours * line["step"] / lines[-1]["step"]} for line in lines]


def write_experiment(folder: Path, table: Table) -> None:
    """Writes pictures, then the page, then results.json, which names them."""
    results = table.results()
    columns: Sequence[str] = [name for name in _SCORES if any(name in row.ours for row in results.rows)]
    plots = []
    if table.seeds:
        pictures.draw_curves(
            folder / pictures.CURVES_FILE, table.curves(), over_time=table.experiment.over_time
        )
        caption = "Learning curves: mean over seeds, the band from the lowest to the highest."
        plots.append(Plot(pictures.CURVES_FILE, caption))
    pictures.draw_scores(folder / pictures.SCORES_FILE, results, columns)
    plots.append(Plot(pictures.SCORES_FILE, "Ours with the spread over seeds, beside the paper's."))
    write_results(folder, dataclasses.replace(results, plots=plots))


def write_results(folder: Path, results: Results) -> None:
    """Writes results.md and results.json into a folder, which is made."""
    make_folder(folder)
    write_text(folder / MARKDOWN_FILE, markdown(results))
    results.write(folder)
