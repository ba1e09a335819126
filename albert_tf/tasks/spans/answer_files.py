"""The files of a split's answers, as a run keeps them and as SQuAD's script takes them.

RUN/SPLIT_nbest_predictions.json, RUN/SPLIT_null_odds.json for SQuAD 2.0, and RUN/SPLIT_predictions.json
"""

from pathlib import Path
from typing import Any

from albert_tf.tasks.prediction_files import finite_number, read_object
from albert_tf.tasks.problems import shown
from albert_tf.tasks.spans.answers import Answer, SquadPredictions
from data_prep.errors import InputError
from data_prep.files import as_record, read_json, write_json


def n_best_file(run: Path, split: str) -> Path:
    """The file with the n best answers to each of a split's questions."""
    return run / f"{split}_nbest_predictions.json"


def null_odds_file(run: Path, split: str) -> Path:
    """The file with the log odds that a split's questions have no answer."""
    return run / f"{split}_null_odds.json"


def write_answers(
    run: Path, split: str, predictions: SquadPredictions, threshold: float | None = None
) -> None:
    """Writes the n best answers, the null odds if there are any, and SQuAD's predictions.json.

    predictions.json has "" for null odds above `threshold`, if one is given.
    """
    write_json(n_best_file(run, split), predictions.n_best_json())
    if predictions.null_odds is not None:
        write_json(null_odds_file(run, split), predictions.null_odds)
    write_json(run / f"{split}_predictions.json", predictions.texts(threshold))


def read_n_best(run: Path, split: str) -> SquadPredictions:
    """The answers and null odds that `write_answers` wrote.

    Raises:
      InputError: the n best answers are missing or of another form.
    """
    path = n_best_file(run, split)
    n_best = as_record(dict[str, list[Answer]], read_json(path), path)
    if not n_best or not all(n_best.values()):
        raise InputError(f"Every question must have an answer. Received {path}, in which some have none.")
    file = null_odds_file(run, split)
    odds = read_odds(file) if file.exists() else None
    if odds is not None and odds.keys() != n_best.keys():
        raise InputError(f"Every question must have null odds. Received {file} with other ids than {path}.")
    return SquadPredictions(n_best, odds)


def read_answers(path: Path) -> dict[str, str]:
    """SQuAD's predictions.json: a text for each id.

    Raises:
      InputError: it is not a JSON object of texts.
    """

    def text(value: Any, source: str) -> str:
        if not isinstance(value, str):
            raise InputError(f"An answer must be a string. Received {shown(value)} for {source}.")
        return value

    return read_object(path, text)


def read_odds(path: Path) -> dict[str, float]:
    """SQuAD's null_odds.json: a number for each id.

    Raises:
      InputError: it is not a JSON object of finite numbers.
    """
    return read_object(path, finite_number)
