"""The predictions that a fine-tuning run keeps for each split, so that ensembles and tables need no model.

RUN/SPLIT_probabilities.jsonl has a line for each example: {"id": "7", "classes": ["0", "1"], "probabilities":
[0.9, 0.1], "label": "0"}. In regression "score" replaces classes and probabilities; in token classification
probabilities and label are lists with one element for each word; in multi-label classification label is a list and
thresholds has a number for each class. Question answering has instead
RUN/SPLIT_nbest_predictions.json, and RUN/SPLIT_null_odds.json for SQuAD 2.0. RUN/SPLIT_predictions.tsv or .json
has the predictions in the form that the task's benchmark takes.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.tasks.examples import shown
from albert_tf.tasks.prediction_files import read_odds, write_predictions
from albert_tf.tasks.spans.answers import Answer, SquadPredictions
from albert_tf.tasks.task import TaskKind
from data_prep.errors import InputError
from data_prep.files import Number, as_record, decode_json, read_json, read_text, write_json, write_text


@dataclass(frozen=True)
class Probabilities:
    """A model's predictions for N examples.

    Attributes:
      ids: N ids of the examples.
      classes: the names of the C classes, letters in multiple choice; () in regression.
      values: N float arrays: probabilities (C,), or (W, C) for W words, or a number () in regression.
      labels: N correct labels: the name of a class, a tuple of several names or of those for W words, or a number;
        None if unknown.
      groups: N names such as "middle" and "high" in RACE; None without groups.
      thresholds: in multi-label classification, the lowest probability at which an example gets each class.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    labels: tuple[Any, ...] | None = None
    groups: tuple[str, ...] | None = None
    thresholds: tuple[float, ...] = ()

    def predictions(self) -> list[Any]:
        """The prediction for each example: its most probable class, or that of each of its words; in multi-label
        classification all classes that reach their thresholds; in regression the number.
        """
        if not self.classes:
            return [float(value) for value in self.values]
        if self.thresholds:
            return [
                [
                    name
                    for name, reached in zip(self.classes, value >= self.thresholds, strict=True)
                    if reached
                ]
                for value in self.values
            ]
        return [
            self.classes[int(value.argmax())]
            if value.ndim == 1
            else [self.classes[i] for i in value.argmax(axis=-1)]
            for value in self.values
        ]

    def in_order(self, classes: tuple[str, ...]) -> "Probabilities":
        """The same with the classes in another order; itself if these are other classes."""
        if classes == self.classes or sorted(classes) != sorted(self.classes):
            return self
        order = [self.classes.index(name) for name in classes]
        thresholds = tuple(self.thresholds[place] for place in order) if self.thresholds else ()
        values = tuple(value[..., order] for value in self.values)
        return dataclasses.replace(self, classes=classes, values=values, thresholds=thresholds)

    def by_id(self) -> dict[str, Any]:
        """The predictions of each id."""
        return dict(zip(self.ids, self.predictions(), strict=True))


def keep_predictions(
    run: Path,
    split: str,
    kind: TaskKind,
    predictions: Probabilities | SquadPredictions,
    threshold: float | None,
) -> None:
    """Writes all files of a split into an existing folder. `threshold` is as in `write_answers`."""
    if isinstance(predictions, Probabilities):
        write_probabilities(probabilities_file(run, split), predictions)
        write_predictions(run, f"{split}_predictions", kind, predictions.by_id())
    else:
        write_answers(run, split, predictions, threshold)


def probabilities_file(run: Path, split: str) -> Path:
    """The file with a split's probabilities."""
    return run / f"{split}_probabilities.jsonl"


def write_probabilities(path: Path, probabilities: Probabilities) -> None:
    """Writes probabilities as JSON Lines."""
    labels = probabilities.labels or (None,) * len(probabilities.ids)
    groups = probabilities.groups or (None,) * len(probabilities.ids)
    lines = []
    for id_, value, label, group in zip(probabilities.ids, probabilities.values, labels, groups, strict=True):
        line: dict[str, Any] = {"id": id_}
        if probabilities.classes:
            line |= {"classes": probabilities.classes, "probabilities": np.asarray(value).tolist()}
        else:
            line["score"] = float(value)
        if probabilities.thresholds:
            line["thresholds"] = probabilities.thresholds
        if label is not None:
            line["label"] = label
        if group is not None:
            line["group"] = group
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))


def read_probabilities(path: Path) -> Probabilities:
    """The probabilities that `write_probabilities` wrote.

    Raises:
      InputError: the file is missing, truncated or of another form.
    """
    text = read_text(path)
    if not text:
        raise InputError(f"A run's predictions must have a line for each example. {path} is empty.")
    lines = text.removesuffix("\n").split("\n")  # not splitlines: JSON may contain U+2028
    rows = [_row(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]
    classes = {row["classes"] for row in rows}
    if len(classes) > 1:
        raise InputError(
            f"All lines of a run's predictions must have the same classes. Received {path}: {classes}."
        )
    if len({row["value"].ndim for row in rows}) > 1:
        raise InputError(
            "All lines of a run's predictions must have the probabilities of a text, or all of the words of one. "
            f"Received {path} with both."
        )
    return Probabilities(
        tuple(row["id"] for row in rows),
        classes.pop(),
        tuple(row["value"] for row in rows),
        _column(rows, "label"),
        _column(rows, "group"),
        rows[0]["thresholds"],
    )


_MOST = 1 + 1e-6  # a probability, rounded


@dataclass(frozen=True)
class _Line:
    id: str | int
    classes: tuple[str, ...] = ()
    probabilities: Sequence[Number | Sequence[Number]] = ()
    score: Number | None = None
    thresholds: tuple[Number, ...] = ()
    label: str | int | float | Sequence[str] | None = None
    group: str | None = None


def _row(line: str, source: str) -> dict[str, Any]:
    try:
        row = as_record(_Line, decode_json(line, source), source)
        value = np.array(row.probabilities if row.classes else row.score, np.float64)
        if not np.isfinite(value).all() or value.shape[-1:] != ((len(row.classes),) if row.classes else ()):
            raise ValueError
        if row.classes and (value.min(initial=0) < 0 or value.max(initial=0) > _MOST):
            raise ValueError
        is_labelled = isinstance(row.label, list) and len(row.label) == len(value)  # each word
        if value.ndim == 2 and row.label is not None and not is_labelled:
            raise ValueError
        if len(row.thresholds) not in (0, len(row.classes)):
            raise ValueError
        label = tuple(row.label) if isinstance(row.label, list) else row.label
        known = {"classes": row.classes, "thresholds": row.thresholds, "label": label, "group": row.group}
        return {**known, "id": str(row.id), "value": value}
    except (ValueError, TypeError):
        raise InputError(
            "A line of a run's predictions must be JSON with id, and a score, or classes and their probabilities "
            "for a text or for each word with a label. "
            f"Received {source}: {shown(line)}."
        ) from None


def _column(rows: Sequence[dict[str, Any]], name: str) -> tuple[Any, ...] | None:
    values = tuple(row.get(name) for row in rows)
    return None if None in values else values


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
