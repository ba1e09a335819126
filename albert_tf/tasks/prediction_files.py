"""Predictions in the forms that benchmarks take: GLUE's TSV of index and prediction, JSON objects by id."""

import json
import math
import string
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from albert_tf.tasks.examples import Problems, shown
from albert_tf.tasks.task import Task, TaskKind
from albert_tf.tasks.words.conll import read_conll
from data_prep.errors import InputError
from data_prep.files import read_text, write_json, write_text

# The files of a submission to GLUE, in the order of a task's test splits.
GLUE_FILES: dict[str, tuple[str, ...]] = {
    "cola": ("CoLA.tsv",),
    "sst-2": ("SST-2.tsv",),
    "mrpc": ("MRPC.tsv",),
    "sts-b": ("STS-B.tsv",),
    "qqp": ("QQP.tsv",),
    "mnli": ("MNLI-m.tsv", "MNLI-mm.tsv"),
    "qnli": ("QNLI.tsv",),
    "rte": ("RTE.tsv",),
    "wnli": ("WNLI.tsv",),
    "ax": ("AX.tsv",),
}
_HEADER = ("index", "prediction")
T = TypeVar("T")


def write_predictions(folder: Path, name: str, kind: TaskKind, predictions: Mapping[str, Any]) -> Path:
    """Writes predictions in the form that the task's benchmark takes.

    Args:
      folder: an existing folder.
      name: the file's name without its suffix.
      kind: the task's. Multiple choice (letters), multi-label and token classification (lists of labels) become a
        JSON object, everything else a TSV.
      predictions: by id.

    Returns:
      The file.
    """
    if kind in ("multiple_choice", "multi_label_classification", "token_classification"):
        path = folder / f"{name}.json"
        write_json(path, predictions)
    else:
        path = folder / f"{name}.tsv"
        write_text(path, as_tsv(predictions))
    return path


def read_predictions(task: Task, path: Path) -> dict[str, Any]:
    """The predictions of any task but question answering, by id.

    Returns:
      What the file of the task's kind holds: labels, numbers, letters or lists of labels.

    Raises:
      InputError: the file is missing or of another form, or a prediction is not possible.
    """
    if task.kind == "regression":
        return dict(read_numbers(path))
    if task.kind == "multiple_choice":
        return dict(read_letters(path, len(task.labels) or len(string.ascii_uppercase)))
    if task.kind == "token_classification":
        return dict(read_word_labels(path))
    if task.kind == "multi_label_classification":
        return dict(read_label_lists(path))
    return dict(read_labels(path, task.labels))


def as_tsv(predictions: Mapping[str, Any]) -> str:
    """The text of GLUE's TSV.

    >>> as_tsv({"0": "entailment", "1": "not_entailment"})
    'index\\tprediction\\n0\\tentailment\\n1\\tnot_entailment\\n'
    """
    return "".join("\t".join(map(str, row)) + "\n" for row in (_HEADER, *predictions.items()))


def read_labels(path: Path, labels: tuple[str, ...] = ()) -> dict[str, str]:
    """The predictions of a TSV of labels.

    Args:
      path: the file.
      labels: the allowed predictions; () allows any.

    Raises:
      InputError: the header differs, a line does not have two columns, an index comes twice, or a prediction is
        not allowed; the message names the line.
    """
    lines = read_text(path).removesuffix("\n").split("\n")
    if tuple(lines[0].rstrip("\r").split("\t")) != _HEADER:
        raise InputError(
            "A file of predictions must begin with the header index and prediction, separated by a tab. "
            f"Received {path}, which begins with {shown(lines[0])}."
        )
    predictions: dict[str, str] = {}
    for number, line in enumerate(lines[1:], start=2):
        row = line.rstrip("\r").split("\t")
        if len(row) != 2:
            raise InputError(
                "A line of predictions must be an index, a tab and a prediction. "
                f"{path}:{number} is {shown(line)}."
            )
        if row[0] in predictions:
            raise InputError(
                f"Every index must have one prediction. Received a second one for {row[0]} at {path}:{number}."
            )
        if labels and row[1] not in labels:
            raise InputError(
                f"A prediction must be one of {', '.join(labels)}. Received {row[1]!r} at {path}:{number}."
            )
        predictions[row[0]] = row[1]
    return predictions


def read_numbers(path: Path) -> dict[str, float]:
    """The predictions of a TSV of numbers.

    Raises:
      InputError: as `read_labels`, or a prediction is not a finite number.
    """
    return {id_: _number(text, f"the index {id_} in {path}") for id_, text in read_labels(path).items()}


def read_answers(path: Path) -> dict[str, str]:
    """SQuAD's predictions.json: a text for each id.

    Raises:
      InputError: it is not a JSON object of texts.
    """

    def text(value: Any, source: str) -> str:
        if not isinstance(value, str):
            raise InputError(f"An answer must be a string. Received {shown(value)} for {source}.")
        return value

    return _read_object(path, text)


def read_odds(path: Path) -> dict[str, float]:
    """SQuAD's null_odds.json: a number for each id.

    Raises:
      InputError: it is not a JSON object of finite numbers.
    """
    return _read_object(path, _number)


def read_letters(path: Path, count: int = 26) -> dict[str, str]:
    """Multiple choice: a letter for each id, A for the first option.

    Raises:
      InputError: it is not a JSON object of the first `count` letters.
    """
    letters = string.ascii_uppercase[:count]

    def letter(value: Any, source: str) -> str:
        if not isinstance(value, str) or len(value) != 1 or value not in letters:
            raise InputError(
                f"A choice must be a letter from A to {letters[-1]}. Received {shown(value)} for {source}."
            )
        return value

    return _read_object(path, letter)


def read_label_lists(path: Path) -> dict[str, list[str]]:
    """The labels of each text, or of each sentence's words, from a JSON object.

    Raises:
      InputError: it is not a JSON object of lists of texts.
    """

    def label_list(value: Any, source: str) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(label, str) for label in value):
            raise InputError(f"Labels must be a list of strings. Received {shown(value)} for {source}.")
        return value

    return _read_object(path, label_list)


def read_word_labels(path: Path) -> dict[str, list[str]]:
    """Token classification: the labels of each sentence's words, from a JSON object or CoNLL's last column.

    Raises:
      InputError: it is not a JSON object of lists of texts, or a word has no label.
    """
    if path.suffix == ".json":
        return read_label_lists(path)
    problems = Problems()
    sentences = read_conll(path, problems)
    if problems.counts:
        raise InputError(f"Every word needs one predicted label. Received {'; '.join(problems.lines())}.")
    return {sentence.id: list(sentence.labels or ()) for sentence in sentences}


def _read_object(path: Path, check: Callable[[Any, str], T]) -> dict[str, T]:
    text = read_text(path)
    try:
        content = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be JSON. It is not: {error}.") from None
    if not isinstance(content, _Pairs):
        raise InputError(
            "Predictions must be a JSON object with a value for each id. "
            f"{path} holds a {type(content).__name__}."
        )
    twice = [id_ for id_, count in Counter(id_ for id_, _ in content).items() if count > 1]
    if twice:
        raise InputError(
            f"Every id must have one value. Received {path} with {len(twice)} ids twice, first {twice[0]}."
        )
    return {id_: check(value, f"{id_} in {path}") for id_, value in content}


class _Pairs(list):
    """A JSON object that keeps repeated keys."""


def _number(value: Any, source: str) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"A finite number is needed. Received {shown(value)} for {source}.")
    return number
