"""A model's probabilities or numbers for examples, in the file that a run keeps for each split.

RUN/SPLIT_probabilities.jsonl has a line for each example: {"id": "7", "classes": ["0", "1"], "probabilities":
[0.9, 0.1], "label": "0"}. Of numbers, "score" replaces classes and probabilities. Of words, probabilities and
label are lists with one element for each word. Of texts with several labels, label is a list and thresholds has a
number for each class.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.tasks.problems import shown
from data_prep.errors import InputError
from data_prep.files import Number, as_record, decode_json, read_text, write_text

_MOST = 1 + 1e-6  # a probability, rounded


@dataclass(frozen=True)
class Probabilities:
    """A model's predictions for N examples.

    Attributes:
      ids: N ids of the examples.
      classes: the names of the C classes, letters of options; () for numbers.
      values: N float arrays: probabilities (C,), or (W, C) for W words, or a number (), or several.
      labels: N correct labels: the name of a class, a tuple of several names or of those for W words, or a number;
        None if unknown.
      groups: N names such as "middle" and "high" in RACE; None without groups.
      thresholds: of texts with several labels, the lowest probability at which an example gets each class.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    labels: tuple[Any, ...] | None = None
    groups: tuple[str, ...] | None = None
    thresholds: tuple[float, ...] = ()

    def predictions(self) -> list[Any]:
        """The prediction for each example: its most probable class, or that of each of its words; with thresholds
        all classes that reach theirs; or the number, or the list of numbers.
        """
        if not self.classes:
            return [np.asarray(value, np.float64).tolist() for value in self.values]
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


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of classes (..., C)."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities of labels (..., C), without overflow."""
    return np.exp(-np.logaddexp(0, -logits))


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
            line["score"] = np.asarray(value, np.float64).tolist()
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


@dataclass(frozen=True)
class _Line:
    id: str | int
    classes: tuple[str, ...] = ()
    probabilities: Sequence[Number | Sequence[Number]] = ()
    score: Number | Sequence[Number] | None = None
    thresholds: tuple[Number, ...] = ()
    label: str | int | float | Sequence[str] | None = None
    group: str | None = None


def _row(line: str, source: str) -> dict[str, Any]:
    try:
        row = as_record(_Line, decode_json(line, source), source)
        value = np.array(row.probabilities if row.classes else row.score, np.float64)
        if not np.isfinite(value).all() or (row.classes and value.shape[-1:] != (len(row.classes),)):
            raise ValueError
        if not row.classes and value.shape == (1,):  # several numbers, or one alone
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


def average(members: Mapping[str, Probabilities]) -> Probabilities:
    """The mean of the members' probabilities and thresholds, or of their numbers.

    Args:
      members: name -> predictions for the same examples.

    Raises:
      InputError: their examples, classes or labels differ.
    """
    first_name, first = next(iter(members.items()))
    members = {name: member.in_order(first.classes) for name, member in members.items()}
    for name, member in members.items():
        for what in ("classes", "ids", "labels"):
            if getattr(member, what) != getattr(first, what):
                raise InputError(
                    f"Members of an ensemble must have the same {what}. Those of {first_name} and {name} differ; "
                    "were they trained on the same task and files?"
                )
        shapes = [(a.shape, b.shape) for a, b in zip(first.values, member.values, strict=True)]
        if any(a != b for a, b in shapes):
            raise InputError(
                f"Members of an ensemble must have the same words. Those of {first_name} and {name} differ."
            )
    values = tuple(
        np.mean(values, axis=0)
        for values in zip(*(member.values for member in members.values()), strict=True)
    )
    all_thresholds = [member.thresholds for member in members.values()]
    thresholds = tuple(np.mean(all_thresholds, axis=0).tolist()) if all(all_thresholds) else ()
    return Probabilities(first.ids, first.classes, values, first.labels, first.groups, thresholds)
