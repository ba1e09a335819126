"""Predictions in the forms that benchmarks take: GLUE's TSV of index and prediction, JSON objects by id."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from albert_tf.tasks.problems import shown
from data_prep.errors import InputError
from data_prep.files import read_text

_HEADER = ("index", "prediction")
T = TypeVar("T")


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
    return {id_: finite_number(text, f"the index {id_} in {path}") for id_, text in read_labels(path).items()}


def read_label_lists(path: Path) -> dict[str, list[str]]:
    """The labels of each text, or of each sentence's words, from a JSON object.

    Raises:
      InputError: it is not a JSON object of lists of texts.
    """

    def label_list(value: Any, source: str) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(label, str) for label in value):
            raise InputError(f"Labels must be a list of strings. Received {shown(value)} for {source}.")
        return value

    return read_object(path, label_list)


def read_object(path: Path, check: Callable[[Any, str], T]) -> dict[str, T]:
    """A JSON object with a value for each id.

    Args:
      path: the file.
      check: takes a value and its place; returns the value, or raises InputError.
    """
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


def finite_number(value: Any, source: str) -> float:
    """The value as a number; InputError if it is none."""
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"A finite number is needed. Received {shown(value)} for {source}.")
    return number
