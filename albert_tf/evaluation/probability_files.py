"""What a model thinks of each example of a split, as a fine-tuning run keeps it: RUN/SPLIT_probabilities.jsonl.

A line an example: {"id": "7", "classes": ["0", "1"], "probabilities": [0.9, 0.1], "label": "0"}. In regression a
"score" stands in their place; in token classification probabilities and label are lists, one element a word.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.errors import InputError
from data_prep.files import write_text

_LONGEST_LINE = 80  # of what a message shows of a line


@dataclass(frozen=True)
class Probabilities:
    """A model's predictions of N examples.

    Attributes:
      ids: of the examples.
      classes: the C classes' names, options' letters in multiple choice; () in regression.
      values: N float arrays: (C,) probabilities, (W, C) of W words, or () a number in regression.
      labels: N right answers: a class's name, the W words' names, a number; None where they are not known.
      groups: N names as "middle" and "high" in RACE; None without groups.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    labels: tuple[Any, ...] | None = None
    groups: tuple[str, ...] | None = None

    def predictions(self) -> list[Any]:
        """The most probable class of each example, or of each word; the number in regression."""
        if not self.classes:
            return [float(value) for value in self.values]
        return [
            self.classes[int(value.argmax())]
            if value.ndim == 1
            else [self.classes[i] for i in value.argmax(axis=-1)]
            for value in self.values
        ]


def probabilities_file(run: Path, split: str) -> Path:
    """Where a run keeps a split's probabilities."""
    return run / f"{split}_probabilities.jsonl"


def write_probabilities(path: Path, probabilities: Probabilities) -> None:
    """Writes a whole file, or nothing."""
    labels = probabilities.labels or (None,) * len(probabilities.ids)
    groups = probabilities.groups or (None,) * len(probabilities.ids)
    lines = []
    for id_, value, label, group in zip(probabilities.ids, probabilities.values, labels, groups, strict=True):
        line: dict[str, Any] = {"id": id_}
        if probabilities.classes:
            line |= {"classes": probabilities.classes, "probabilities": np.asarray(value).tolist()}
        else:
            line["score"] = float(value)
        if label is not None:
            line["label"] = label
        if group is not None:
            line["group"] = group
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))


def read_probabilities(path: Path) -> Probabilities:
    """What `write_probabilities` wrote.

    Raises:
      InputError: there is no such file, it is cut off, or it is another kind of file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InputError(f"A run's predictions are in {path.name}. Received {path}: {reason}.") from None
    if not text:
        raise InputError(
            f"A run's predictions have a line for each example. Received {path}, which is empty."
        )
    lines = text.removesuffix("\n").split("\n")  # and not at U+2028, which JSON may hold
    rows = [_row(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]
    classes = {row["classes"] for row in rows}
    if len(classes) > 1:
        raise InputError(
            f"All lines of a run's predictions have the same classes. Received {path}: {classes}."
        )
    return Probabilities(
        tuple(row["id"] for row in rows),
        classes.pop(),
        tuple(row["value"] for row in rows),
        _column(rows, "label"),
        _column(rows, "group"),
    )


def _row(line: str, source: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        classes = tuple(row.get("classes", ()))
        value = np.array(row["probabilities"] if classes else row["score"], np.float64)
        if not np.isfinite(value).all() or value.shape[-1:] != ((len(classes),) if classes else ()):
            raise ValueError
        return {**row, "id": str(row["id"]), "classes": classes, "value": value}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(
            "A line of a run's predictions is JSON with id, and classes and probabilities or a score. "
            f"Received {source}: {line[:_LONGEST_LINE]!r}."
        ) from None


def _column(rows: Sequence[dict[str, Any]], name: str) -> tuple[Any, ...] | None:
    values = tuple(row.get(name) for row in rows)
    return None if None in values else values
