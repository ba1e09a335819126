"""Files of predictions against files of right answers, for every task and without a model.

predictions: GLUE's TSVs, SQuAD's predictions.json, RACE's letters by id, words' labels by id or CoNLL's columns
gold: what `data_prep.tasks` reads; of SQuAD the JSON file
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from albert_tf.evaluation.averages import GLUE_TASKS, glue_average
from albert_tf.evaluation.classification_metrics import task_metrics
from albert_tf.evaluation.prediction_files import (
    read_answers,
    read_letters,
    read_numbers,
    read_odds,
    read_table,
)
from albert_tf.evaluation.squad_metrics import (
    NA_PROB_THRESH,
    check_ids,
    evaluate_squad1,
    evaluate_squad2,
    gold_answers,
)
from albert_tf.evaluation.submission import GLUE_FILES
from data_prep.errors import InputError
from data_prep.files import read_json
from data_prep.tasks.conll import read_conll
from data_prep.tasks.examples import (
    ChoiceExample,
    Example,
    Problems,
    QuestionExample,
    TextExample,
    WordsExample,
)
from data_prep.tasks.reading import read_examples
from data_prep.tasks.tables import read_table as read_rows
from data_prep.tasks.task import Task, find_task

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def evaluate(
    task_name: str,
    predictions: Path,
    gold: Path,
    problems: Problems,
    *,
    null_odds: Path | None = None,
    na_prob_thresh: float = NA_PROB_THRESH,
) -> dict[str, Any]:
    """The official metrics of a file of predictions.

    Args:
      task_name: one of the tasks; or "glue" for a folder with any of GLUE's files (CoLA.tsv and so on), which
        gives metrics by task, and their average if all nine tasks are there.
      predictions: a file; for MNLI also a folder with MNLI-m.tsv and MNLI-mm.tsv.
      gold: the file with the right answers, or the folder of a download, of which the dev set is taken.
      problems: collects rows of `gold` that cannot be used.
      null_odds: SQuAD 2.0's null_odds.json; adds the best threshold and its metrics.
      na_prob_thresh: see `evaluate_squad2`.

    Returns:
      What `task_metrics`, `evaluate_squad1` or `evaluate_squad2` gives.

    Raises:
      InputError: a file is missing or in another form, ids differ, or there are no right answers to compare with.
    """
    if task_name.lower() == "glue":
        return evaluate_glue(predictions, gold, problems)
    task = find_task(task_name)
    if task.kind == "question_answering":
        answers = _accepted_answers(task, gold, problems)
        texts = read_answers(predictions)
        odds = read_odds(null_odds) if null_odds else None
        if task.answerable or (task.is_own_data and not all(answers.values())):
            return evaluate_squad2(answers, texts, odds, na_prob_thresh=na_prob_thresh)
        _refuse_odds(task, null_odds)
        return evaluate_squad1(answers, texts)
    _refuse_odds(task, null_odds)
    if task.name == "mnli" and predictions.is_dir():
        return _both_mnli(task, predictions, gold, problems)
    labels, groups = _right_labels(task, gold, "dev_matched" if task.name == "mnli" else "dev", problems)
    predicted = _predictions(task, predictions)
    check_ids(labels, predicted, "prediction")
    if task.kind == "token_classification":
        _check_lengths(labels, predicted)
    return task_metrics(task.name, [predicted[id_] for id_ in labels], list(labels.values()), groups)


def evaluate_glue(predictions: Path, gold: Path, problems: Problems) -> dict[str, Any]:
    """The metrics of every GLUE task that a folder has a file of; "average" if it has all nine.

    Args:
      predictions: the folder.
      gold: the folder of GLUE's download.
      problems: collects rows of `gold` that cannot be used.

    Raises:
      InputError: as `evaluate`, or the folder has none of GLUE's files.
    """
    results: dict[str, Any] = {}
    for name in GLUE_TASKS:
        files = [predictions / file for file in GLUE_FILES[name].values()]
        if all(file.is_file() for file in files):
            results[name] = evaluate(name, predictions if len(files) > 1 else files[0], gold, problems)
    if not results:
        raise InputError(
            f"A folder of GLUE's predictions has CoLA.tsv, SST-2.tsv and so on. Received {predictions} with none."
        )
    return results | ({"average": glue_average(results)} if len(results) == len(GLUE_TASKS) else {})


def _both_mnli(task: Task, predictions: Path, gold: Path, problems: Problems) -> dict[str, float]:
    labels: list[Any] = []
    predicted: list[Any] = []
    groups: list[str] = []
    splits = ("dev_matched", "dev_mismatched")
    for split, name, group in zip(splits, GLUE_FILES[task.name].values(), ("m", "mm"), strict=True):
        of_split, _ = _right_labels(task, gold, split, problems)
        found = _predictions(task, predictions / name)
        check_ids(of_split, found, "prediction")
        labels += of_split.values()
        predicted += [found[id_] for id_ in of_split]
        groups += [group] * len(of_split)
    return task_metrics(task.name, predicted, labels, groups)


def _refuse_odds(task: Task, null_odds: Path | None) -> None:
    if null_odds:
        raise InputError(
            f"--null_odds are for questions without an answer. Received it with --task={task.name}."
        )


def _accepted_answers(task: Task, gold: Path, problems: Problems) -> Mapping[str, Sequence[str]]:
    if gold.suffix == ".json" or not task.is_own_data:
        return gold_answers(read_json(gold), str(gold))
    examples = read_examples(task, gold, "test", problems)
    return {example.id: example.answers for example in examples if isinstance(example, QuestionExample)}


def _right_labels(
    task: Task, gold: Path, split: str, problems: Problems
) -> tuple[dict[str, Any], list[str] | None]:
    """Of each id, as predictions name them; and the examples' groups where they have some."""
    if task.name == "ax":
        return _diagnostic_labels(gold, task, problems), None
    # As a test set a file keeps rows with empty texts, for which there are predictions too.
    examples = read_examples(task, gold, split if gold.is_dir() else "test", problems)
    labels = {example.id: _label(example) for example in examples}
    unknown = [id_ for id_, label in labels.items() if label is None]
    if unknown or len(labels) < len(examples):
        raise InputError(
            f"Every example of the gold file needs a label and an id of its own. Received {gold} with "
            f"{len(examples):,} examples, {len(labels):,} ids and {len(unknown):,} without a label."
        )
    groups = [example.group for example in examples if isinstance(example, ChoiceExample)]
    return labels, groups if any(groups) else None


def _label(example: Example) -> Any:
    if isinstance(example, ChoiceExample):
        return None if example.label is None else _LETTERS[example.label]
    if isinstance(example, WordsExample):
        return None if example.labels is None else list(example.labels)
    return example.label if isinstance(example, TextExample) else None


def _diagnostic_labels(gold: Path, task: Task, problems: Problems) -> dict[str, str]:
    """Of the diagnostic set with labels, diagnostic-full.tsv; its rows have no ids but their order."""
    rows = read_rows(gold, problems, needed=["Label"])
    labels = {
        str(row.values.get("index", number)): str(row.values["Label"]) for number, row in enumerate(rows)
    }
    if not labels or not set(labels.values()) <= set(task.labels):
        raise InputError(
            f"The labels of the diagnostic set are {', '.join(task.labels)}. Received {gold} with "
            f"{', '.join(sorted(set(labels.values()))) or 'none'}."
        )
    return labels


def _predictions(task: Task, path: Path) -> dict[str, Any]:
    if task.kind == "regression":
        return dict(read_numbers(path))
    if task.kind == "multiple_choice":
        return dict(read_letters(path, len(task.labels) or len(_LETTERS)))
    if task.kind == "token_classification":
        return _word_labels(path)
    return dict(read_table(path, task.labels))


def _word_labels(path: Path) -> dict[str, list[str]]:
    """From a JSON object of lists, or CoNLL's columns, the last of which is what is predicted."""
    if path.suffix != ".json":
        told = Problems()
        sentences = read_conll(path, told)
        if told.counts:
            raise InputError(f"Every word needs one predicted label. Received {'; '.join(told.lines())}.")
        return {sentence.id: list(sentence.labels or ()) for sentence in sentences}
    content = read_json(path)
    if not isinstance(content, dict) or not all(
        isinstance(labels, list) and all(isinstance(label, str) for label in labels)
        for labels in content.values()
    ):
        raise InputError(f"Predicted labels of words are a JSON object, a list for each id. {path} is not.")
    return content


def _check_lengths(labels: Mapping[str, list[str]], predicted: Mapping[str, list[str]]) -> None:
    for id_, of_sentence in labels.items():
        if len(predicted[id_]) != len(of_sentence):
            raise InputError(
                "Every word needs one predicted label. "
                f"Received {len(predicted[id_])} for the {len(of_sentence)} words of sentence {id_}."
            )
