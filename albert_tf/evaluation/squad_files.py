"""A run's answers to a split's questions, in the original's files.

RUN/SPLIT_predictions.json and RUN/SPLIT_null_odds.json are what SQuAD's evaluation and submission take;
RUN/SPLIT_nbest_predictions.json has the n best answers.
"""

from pathlib import Path

from albert_tf.evaluation.prediction_files import read_odds
from albert_tf.evaluation.squad_predictions import Answer, SquadPredictions
from data_prep.errors import InputError
from data_prep.files import read_json, write_json


def n_best_file(run: Path, split: str) -> Path:
    """Where a run keeps the n best answers."""
    return run / f"{split}_nbest_predictions.json"


def null_odds_file(run: Path, split: str) -> Path:
    """Where a run keeps the log odds that there is no answer."""
    return run / f"{split}_null_odds.json"


def write_answers(
    run: Path, split: str, predictions: SquadPredictions, threshold: float | None = None
) -> None:
    """Writes the files of a split, each whole or not at all.

    Args:
      run: a folder that is there.
      split: "dev" or "test".
      predictions: answers and null odds.
      threshold: of the null odds above which predictions.json has "".
    """
    write_json(n_best_file(run, split), predictions.n_best_json())
    if predictions.null_odds is not None:
        write_json(null_odds_file(run, split), predictions.null_odds)
    write_json(run / f"{split}_predictions.json", predictions.texts(threshold))


def read_answers_of_run(run: Path, split: str) -> SquadPredictions:
    """What `write_answers` wrote.

    Raises:
      InputError: the n best answers are missing or in another form.
    """
    path = n_best_file(run, split)
    content = read_json(path)
    try:
        n_best = {id_: [Answer(**answer) for answer in answers] for id_, answers in content.items()}
    except (TypeError, AttributeError) as error:
        raise InputError(
            f"The n best answers are lists by id of {_FIELDS}. Received {path}: {error}."
        ) from None
    if not n_best or not all(n_best.values()):
        raise InputError(
            f"Every question has an answer or more. Received {path} with questions that have none."
        )
    odds = null_odds_file(run, split)
    return SquadPredictions(n_best, read_odds(odds) if odds.exists() else None)


_FIELDS = "text, answer_start, probability, start_score and end_score"
