"""Ensembles: the mean of the members' probabilities, as in the paper's leaderboard rows (section 4.9).

folders --Kind.read_kept--> members --Kind.average--> ensemble --Kind.measure_kept--> metrics
models from elsewhere --predict--> members
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from albert_tf.checkpoints.run_files import RESULTS_FILE
from albert_tf.checkpoints.stored import read_optional_json
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.kind import Kind, Task
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.scores import accepted_answers
from data_prep.errors import InputError
from data_prep.files import check_is_folder

# Returns the predictions of a model, named as `albert predict` takes it, for each split.
Predict = Callable[[str], Sequence[Any]]


def report_runs(
    task: Task,
    runs: Sequence[str | Path],
    role: str = "dev",
    predict: Predict | None = None,
    *,
    copies: Mapping[str, Path] = MappingProxyType({}),
    gold: Path | None = None,
    columns: Columns | None = None,
    problems: Problems | None = None,
    threshold: float | None = None,
    output_dir: Path | None = None,
) -> dict[str, Any]:
    """The metrics of runs and of their ensemble.

    Args:
      task: the task they were trained on.
      runs: their folders; a folder of seed_0, seed_1, ... stands for all of these that have not failed. Also other
        fine-tuned models, which `predict` takes.
      role: "dev", or "test" to write predictions.
      predict: returns the predictions of a model for each split, for members without any.
      copies: the folders on this machine with the predictions of runs at addresses.
      gold: the file with the correct answers, required for the metrics of questions: SQuAD's, or own data.
      columns: the columns of own data in `gold`.
      problems: collects unusable rows of `gold`.
      threshold: for SQuAD 2.0, the null odds above which there is no answer. Default: the best for F1 according to
        `gold`, or 0.
      output_dir: where to write the ensemble's predictions, in the files of a run; None writes nothing.

    Returns:
      {"members": {folder: metrics}, "ensemble": metrics}; metrics are empty if the labels are unknown.

    Raises:
      InputError: there is no run, one lacks predictions, their examples differ, or `output_dir` is a file or a
        run; nothing is written then.
    """
    if output_dir is not None:
        check_is_folder("output_dir", output_dir)
        _check_is_no_run(output_dir, runs)
    splits = task.splits[role]
    if not splits:
        raise InputError(f"{task.name} has no {role} set. Name another one with --split.")
    kind = task.kind
    check_has_runs(runs)
    members: dict[str, Sequence[Any]] = {}
    for run in runs:
        members |= _members(run, copies, splits, kind, predict)
    answers = None
    if gold and kind.needs_gold:
        answers = accepted_answers(task, gold, problems or Problems(), columns)
    ensemble = [kind.average({name: parts[i] for name, parts in members.items()}) for i in range(len(splits))]
    report = {
        "members": {
            name: kind.measure_kept(task, parts, answers, threshold) for name, parts in members.items()
        },
        "ensemble": kind.measure_kept(task, ensemble, answers, threshold),
    }
    if output_dir is not None:
        output_dir.mkdir(parents=True, exist_ok=True)
        for split, part in zip(splits, ensemble, strict=True):
            kind.keep(output_dir, split, part, kind.threshold(part, answers, threshold))
    return report


def check_has_runs(runs: Sequence[str | Path]) -> None:
    """Raises InputError if there are no runs."""
    if not runs:
        raise InputError("Name the folder of at least one run. Received none.")


def _check_is_no_run(output_dir: Path, runs: Sequence[str | Path]) -> None:
    """Raises InputError if a folder holds seeds, or is a run: the ensemble's predictions would replace theirs."""
    is_run = output_dir.resolve() in [Path(run).resolve() for run in runs]
    if is_run or any(output_dir.glob("seed_*")):
        raise InputError(
            "--output_dir must not be the folder of a run, whose predictions the ensemble's would replace. "
            f"Received {output_dir}; name another one."
        )


def _members(
    run: str | Path,
    copies: Mapping[str, Path],
    splits: Sequence[str],
    kind: Kind,
    predict: Predict | None,
) -> dict[str, Sequence[Any]]:
    """The predictions of a run, or of its seeds: those that it keeps, otherwise those that `predict` returns."""
    folder = copies.get(str(run), Path(run))

    def name(each: Path) -> str:
        return str(each) if folder == Path(run) else str(each).replace(str(folder), str(run))

    found = sorted(folder.glob("seed_*"), key=lambda path: (len(path.name), path.name))
    seeds = [seed for seed in found if "failed" not in read_optional_json(seed / RESULTS_FILE)] or found
    folders = [folder] if kind.kept_file(folder, splits[0]).exists() else seeds
    if any(kind.kept_file(each, splits[0]).exists() for each in folders):
        return {name(each): [kind.read_kept(each, split) for split in splits] for each in folders}
    if predict:
        return {each: predict(each) for each in map(name, seeds)} or {str(run): predict(str(run))}
    raise InputError(
        f"A member of an ensemble must have predictions. Received {run} without "
        f"{kind.kept_file(folder, splits[0]).name}; run it with --do_eval or --do_predict first."
    )
