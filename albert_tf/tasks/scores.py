"""The metrics of files of predictions, for every task and without a model; a task's score and GLUE's average.

predictions: GLUE's TSVs, SQuAD's predictions.json, RACE's letters by id, words' labels by id or in CoNLL's columns
gold: what the readers of tasks give; for SQuAD the JSON file
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from albert_tf.tasks.benchmarks.glue import GLUE_FILES
from albert_tf.tasks.benchmarks.squad import squad_file
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.kind import SPLIT_GROUPS, Task, check_no_odds
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import is_own_table, read_examples
from albert_tf.tasks.spans.metrics import NA_PROB_THRESH, check_ids
from albert_tf.tasks.spans.squad_json import gold_answers
from albert_tf.tasks.tables import read_table, read_unpacked, table_suffix
from albert_tf.tasks.task import BENCHMARKS, find_task
from data_prep.errors import InputError
from data_prep.files import decode_json

GLUE_TASKS = tuple(name for name in GLUE_FILES if name != "ax")


def task_score(task: Task, metrics: Mapping[str, float]) -> float:
    """A task's score in percent, as in the paper's tables: the mean of its metrics.

    Both parts of MNLI count if their accuracies are given.

    >>> task_score(find_task("squad1.1"), {"exact_match": 82.3, "f1": 89.3})
    85.8
    >>> task_score(find_task("sst-2"), {"accuracy": 0.903})
    90.3
    """
    names = task.metrics
    if "accuracy_m" in metrics and "accuracy_mm" in metrics:
        names = ("accuracy_m", "accuracy_mm")
    mean = sum(metrics[name] for name in names) / len(names)
    return mean if task.kind.scores_in_percent else 100.0 * mean


def glue_average(results: Mapping[str, Mapping[str, float]]) -> float:
    """GLUE's score in percent, the column Avg of the paper's Table 9, from the metrics of all GLUE_TASKS."""
    return sum(task_score(BENCHMARKS[name], results[name]) for name in GLUE_TASKS) / len(GLUE_TASKS)


def score_predictions(
    task_name: str,
    predictions: Path,
    gold: Path,
    problems: Problems,
    *,
    null_odds: Path | None = None,
    na_prob_thresh: float = NA_PROB_THRESH,
    columns: Columns | None = None,
) -> dict[str, Any]:
    """The official metrics of a file of predictions.

    Args:
      task_name: one of the tasks; or "glue" for a folder with any of GLUE's files (CoLA.tsv and so on).
      predictions: a file; for MNLI also a folder with MNLI-m.tsv and MNLI-mm.tsv.
      gold: the file with the correct labels, or the folder of a download, whose dev set is used.
      problems: collects unusable rows of `gold`.
      null_odds: SQuAD 2.0's null_odds.json; adds the best threshold and its metrics.
      na_prob_thresh: see `evaluate_squad2`.
      columns: the columns of own data; its `label_order` is the order of ordinal classes.

    Returns:
      The metrics of the kind of task; for "glue" the result of `score_glue`.

    Raises:
      InputError: a file is missing or of another form, ids differ, or `gold` has no labels.
    """
    if task_name.lower() == "glue":
        return score_glue(predictions, gold, problems)
    task = find_task(task_name)
    kind = task.kind
    kind.check_metrics()
    if kind.needs_gold:
        answers = accepted_answers(task, gold, problems, columns)
        return kind.measure_file(task, answers, predictions, null_odds, na_prob_thresh)
    check_no_odds(task, null_odds)
    predicted: list[Any] = []
    expected: list[Any] = []
    groups: list[str] = []
    for split, file, group in _parts(task, predictions):
        labels, example_groups = _right_labels(task, gold, split, problems, columns)
        found = kind.read_predictions(task, file)
        check_ids(labels, found, "a prediction")
        compared = kind.comparable(labels, found)
        predicted += [compared[id_] for id_ in labels]
        expected += labels.values()
        groups += [group] * len(labels) if group else example_groups
    return kind.score(task, predicted, expected, groups, columns.label_order if columns else ())


def score_glue(predictions: Path, gold: Path, problems: Problems) -> dict[str, Any]:
    """The metrics of every GLUE task that a folder has files for, and "average" if it has all nine.

    Raises:
      InputError: as `score_predictions`, or the folder has none of GLUE's files.
    """
    results: dict[str, Any] = {}
    for name in GLUE_TASKS:
        files = [predictions / file for file in GLUE_FILES[name]]
        if all(file.is_file() for file in files):
            results[name] = score_predictions(
                name, predictions if len(files) > 1 else files[0], gold, problems
            )
    if not results:
        raise InputError(
            "A folder of GLUE's predictions must have CoLA.tsv, SST-2.tsv and so on. "
            f"Received {predictions}, which has none."
        )
    return results | ({"average": glue_average(results)} if len(results) == len(GLUE_TASKS) else {})


def _parts(task: Task, predictions: Path) -> list[tuple[str, Path, str]]:
    """Dev split, file of predictions and group; several only for a folder of MNLI's."""
    splits = task.splits["dev"]
    if len(splits) > 1 and predictions.is_dir():
        files = [predictions / name for name in GLUE_FILES[task.name]]
        return [(split, file, SPLIT_GROUPS[split]) for split, file in zip(splits, files, strict=True)]
    return [(splits[0] if splits else "dev", predictions, "")]


def accepted_answers(
    task: Task, gold: Path, problems: Problems, columns: Columns | None = None
) -> Mapping[str, Sequence[str]]:
    """The accepted answers of every question of SQuAD's JSON file, or of a file of own questions."""
    if not is_own_table(gold, task) and (table_suffix(gold) == ".json" or not task.is_own_data):
        file = squad_file(task, gold, "dev") if gold.is_dir() else gold
        return gold_answers(decode_json(read_unpacked(file), file), str(file))
    examples = read_examples(task, gold, "dev", problems, columns=columns)
    return {example.id: task.kind.label(example) for example in examples}


def _right_labels(
    task: Task, gold: Path, split: str, problems: Problems, columns: Columns | None
) -> tuple[dict[str, Any], list[str]]:
    """The correct label of each id, and the groups of the examples if they have any."""
    if task.name == "ax":
        return _diagnostic_labels(gold, task, problems), []
    # Reading a file as a test set keeps rows with empty texts, which are predicted too.
    examples = read_examples(task, gold, split if gold.is_dir() else "test", problems, columns=columns)
    labels = {example.id: task.kind.label(example) for example in examples}
    unknown = [id_ for id_, label in labels.items() if label is None]
    if unknown or len(labels) < len(examples):
        raise InputError(
            f"Every example of the gold file needs a label and its own id. Received {gold} with "
            f"{len(examples):,} examples, {len(labels):,} ids and {len(unknown):,} without a label."
        )
    groups = [getattr(example, "group", "") for example in examples]
    return labels, groups if any(groups) else []


def _diagnostic_labels(gold: Path, task: Task, problems: Problems) -> dict[str, str]:
    """The labels of diagnostic-full.tsv, whose rows are numbered instead of having ids."""
    rows = read_table(gold, problems, needed=["Label"])
    labels = {
        str(row.values.get("index", number)): str(row.values["Label"]) for number, row in enumerate(rows)
    }
    if not labels or not set(labels.values()) <= set(task.labels):
        raise InputError(
            f"The labels of the diagnostic set are {', '.join(task.labels)}. Received {gold} with "
            f"{', '.join(sorted(set(labels.values()))) or 'none'}."
        )
    return labels
