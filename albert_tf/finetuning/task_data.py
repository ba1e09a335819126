"""The splits of a task, read and turned into batches of arrays."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.tasks.kind import Task
from albert_tf.tasks.own_data import labels_of
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.splits import EncodedSplit, Example
from albert_tf.tasks.task import BENCHMARKS
from albert_tf.tasks.task_batches import BatchOrder, bucketed_batches
from albert_tf.tasks.values import as_number
from data_prep.errors import InputError

_FEW_CLASSES = 20  # may have few examples each


def read_split(
    task: Task, settings: FinetuningFlags, role: str, problems: Problems, labels: Sequence[str] = ()
) -> list[tuple[str, list[Example]]]:
    """Reads the splits of a role; returns their names and examples.

    Args:
      task: the task.
      settings: for the files or the folder of the data.
      role: "train", "dev" or "test".
      problems: collects rows that cannot be used.
      labels: the known classes of own data; any other label is a problem.

    Raises:
      InputError: there is no such data.
    """
    file = getattr(settings, f"{role}_file")
    source, names = (file, (role,)) if file else (settings.data_dir, task.splits[role])
    assert source, "checked by FinetuningFlags"
    read = [
        (name, read_examples(task, source, name, problems, columns=settings.columns, labels=labels))
        for name in names
    ]
    if settings.school:
        read = [(name, _of_school(examples, settings.school, source)) for name, examples in read]
    if task.name == "mnli" and role == "test" and not file and _has_diagnostic_set(Path(source)):
        read.append(("test", read_examples(BENCHMARKS["ax"], source, "test", problems)))
    return read


def _of_school(examples: Sequence[Example], school: str, source: str) -> list[Example]:
    """RACE's questions from one kind of school."""
    found = [one for one in examples if getattr(one, "group", "") == school]
    if not found:
        raise InputError(
            f"--{school}_only needs passages from {school} schools. Received {source} without any."
        )
    return found


def _has_diagnostic_set(folder: Path) -> bool:
    """Whether a folder holds AX, which models trained on MNLI predict."""
    places = (folder, folder / BENCHMARKS["ax"].folder, folder / "AX")
    return any((place / "diagnostic.tsv").is_file() for place in places)


def classes_of(task: Task, train: Sequence[Example], order: Sequence[str] = ()) -> tuple[str, ...]:
    """The classes of a task in the model's order; for own data, those of the training examples.

    Args:
      task: the task.
      train: the training examples.
      order: ordered classes that are names, the lowest first.

    Raises:
      InputError: there are fewer than two, or ordered classes are neither numbers nor in `order`.
    """
    if task.labels or not task.kind.has_classes:
        return task.labels
    labels = labels_of(task.kind, train)
    if len(labels) < 2:
        raise InputError(
            f"{task.name} needs examples of two classes or more. Received {', '.join(labels) or 'none'} in the "
            "training data."
        )
    if missing := [label for label in labels if order and label not in order]:
        raise InputError(
            f"--label_order must have all classes. Received {', '.join(order)}; the training data also has "
            f"{', '.join(missing)}."
        )
    task.kind.check_classes(labels, order)
    return tuple(order) or labels


def warning_of_many_classes(task: Task, labels: Sequence[str], examples: int) -> str | None:
    """A line if most classes have one example, as when the labels are ids or texts; otherwise None."""
    has_own_classes = task.kind.has_one_class and not task.labels
    if not has_own_classes or len(labels) <= _FEW_CLASSES or 2 * len(labels) <= examples:
        return None
    return (
        f"warning: the training data has {len(labels):,} classes in {examples:,} examples; if the labels are in "
        "another column, give --column_names=label=NAME"
    )


def warning_of_another_dev_set(settings: FinetuningFlags, trained_with: Mapping[str, Any]) -> str | None:
    """A line if a run is evaluated on another dev set than the one that chose its weights; otherwise None.

    Args:
      settings: the flags of the command.
      trained_with: the run's settings.json.
    """
    earlier = trained_with.get("dev_file") or trained_with.get("data_dir")
    given = settings.dev_file or settings.data_dir
    if not (settings.do_eval and trained_with.get("do_eval") and earlier and given):
        return None
    if Path(earlier).absolute() == Path(given).absolute():
        return None
    return (
        f"warning: the weights were chosen by the dev set {earlier}; results.json and the predictions of the dev "
        f"set are now those of {given}"
    )


def with_class_weights(
    split: EncodedSplit, task: Task, class_weights: str, labels: Sequence[str]
) -> EncodedSplit:
    """A split whose examples, or words, are weighted in the loss by their class.

    Args:
      split: for training.
      task: one with a class for each text or word.
      class_weights: the flag.
      labels: the classes in the model's order.

    Raises:
      InputError: the task has no such classes, or the flag names an unknown one.
    """
    if not task.kind.takes_class_weights:
        raise InputError(
            f"--class_weights needs a task with one class for each text or word. Received --task={task.name}."
        )
    is_words = "label_weights" in split.features[0]
    numbers = np.concatenate(
        [np.ravel(f["label"])[f["label_weights"] > 0] if is_words else [f["label"]] for f in split.features]
    )
    weights = _class_weights(class_weights, labels, numbers.astype(np.int32))
    name = "label_weights" if is_words else "class_weight"
    return dataclasses.replace(
        split,
        features=[{**f, name: f.get(name, np.float32(1)) * weights[f["label"]]} for f in split.features],
    )


def _class_weights(given: str, labels: Sequence[str], numbers: np.ndarray) -> np.ndarray:
    """The weight of each class, float32 (C,)."""
    if given == "balanced":
        present, counts = np.unique(numbers, return_counts=True)
        weights = np.ones(len(labels), np.float32)
        weights[present] = len(numbers) / (len(present) * counts)
        return weights
    pairs = {
        name.strip(): as_number(weight) for name, _, weight in (p.rpartition(":") for p in given.split(","))
    }
    unknown = [name for name in pairs if name not in labels]
    if unknown or any(weight is None or weight < 0 for weight in pairs.values()):
        raise InputError(
            "--class_weights must be balanced or LABEL:WEIGHT,..., with weights of at least 0 and the labels "
            f"{', '.join(labels)}. Received {given!r}."
        )
    return np.array([pairs.get(label, 1.0) for label in labels], np.float32)


def split_batches(
    split: EncodedSplit, batch_size: int, pad_to: int | None = None, *, seed: int | None = None, **options
) -> tf.data.Dataset:
    """Batches of a split, all of `batch_size`: the last one is filled with examples of weight 0.

    Args:
      split: the split.
      batch_size: B.
      pad_to: the length of all batches; None groups similar lengths, each batch as long as its longest example.
      seed: determines the order for training; None is for evaluation.
      **options: `num_epochs` and `skip_batches` of `BatchOrder`.
    """
    order = BatchOrder(seed, by_length=pad_to is None, **options)
    return bucketed_batches(split.features, batch_size, order, fill_remainder=True, pad_to=pad_to)
