"""Predictions in the forms that benchmarks take: GLUE's TSV of index and prediction, JSON objects by id."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from data_prep.errors import InputError
from data_prep.files import read_text, write_text

HEADER = ("index", "prediction")
T = TypeVar("T")


def write_table(path: Path, predictions: Mapping[str, Any]) -> None:
    """Writes a TSV with a line for each id, in their order; whole or not at all."""
    write_text(path, table(predictions))


def table(predictions: Mapping[str, Any]) -> str:
    """The text of such a file.

    >>> table({"0": "entailment", "1": "not_entailment"})
    'index\\tprediction\\n0\\tentailment\\n1\\tnot_entailment\\n'
    """
    return "".join("\t".join(map(str, row)) + "\n" for row in (HEADER, *predictions.items()))


def read_table(path: Path, labels: tuple[str, ...] = ()) -> dict[str, str]:
    """The predictions of a TSV.

    Args:
      path: the file.
      labels: what a prediction may be; () for anything.

    Raises:
      InputError: the header is another one, a line has not two columns, an index comes twice, or a prediction is
        outside the set; names the line.
    """
    lines = read_text(path).removesuffix("\n").split("\n")
    if tuple(lines[0].rstrip("\r").split("\t")) != HEADER:
        raise InputError(
            "A file of predictions begins with the header index and prediction, a tab between them. "
            f"Received {path} that begins with {lines[0][:60]!r}."
        )
    predictions: dict[str, str] = {}
    for number, line in enumerate(lines[1:], start=2):
        row = line.rstrip("\r").split("\t")
        if len(row) != 2:
            raise InputError(
                f"A line of predictions is an index, a tab and a prediction. {path}:{number} is {line[:60]!r}."
            )
        if row[0] in predictions:
            raise InputError(
                f"Every index has one prediction. Received a second one for {row[0]} at {path}:{number}."
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
      InputError: as `read_table`, or a prediction is no finite number.
    """
    return {id_: _number(text, f"the index {id_} in {path}") for id_, text in read_table(path).items()}


def read_answers(path: Path) -> dict[str, str]:
    """SQuAD's predictions.json: a text for each id.

    Raises:
      InputError: it is no JSON object of texts.
    """

    def text(value: Any, source: str) -> str:
        if not isinstance(value, str):
            raise InputError(f"An answer must be a text. Received {str(value)[:60]!r} for {source}.")
        return value

    return _read_object(path, text)


def read_odds(path: Path) -> dict[str, float]:
    """SQuAD's null_odds.json: a number for each id.

    Raises:
      InputError: it is no JSON object of finite numbers.
    """
    return _read_object(path, _number)


def read_letters(path: Path, count: int = 26) -> dict[str, str]:
    """Multiple choice: a letter for each id, A for the first option.

    Raises:
      InputError: it is no JSON object of the first `count` letters.
    """
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:count]

    def letter(value: Any, source: str) -> str:
        if not isinstance(value, str) or len(value) != 1 or value not in letters:
            raise InputError(
                f"A choice must be a letter from A to {letters[-1]}. Received {str(value)[:60]!r} for {source}."
            )
        return value

    return _read_object(path, letter)


def _read_object(path: Path, check: Callable[[Any, str], T]) -> dict[str, T]:
    try:
        content = json.loads(read_text(path), object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be JSON. It is not: {error}.") from None
    if not isinstance(content, _Pairs):
        raise InputError(
            f"Predictions are a JSON object, a value for each id. {path} holds a {type(content).__name__}."
        )
    twice = [id_ for id_, count in Counter(id_ for id_, _ in content).items() if count > 1]
    if twice:
        raise InputError(
            f"Every id has one value. Received {path} with {len(twice)} ids twice, first {twice[0]}."
        )
    return {id_: check(value, f"{id_} in {path}") for id_, value in content}


class _Pairs(list):
    """A JSON object that has not forgotten keys that come twice."""


def _number(value: Any, source: str) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"A finite number is needed. Received {str(value)[:60]!r} for {source}.")
    return number
