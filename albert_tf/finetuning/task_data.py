"""The splits of a task, read and turned into batches of arrays."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.finetuning.preprocessor import ChoicePreprocessor, Preprocessor, QuestionPreprocessor
from albert_tf.finetuning.settings import FinetuningSettings
from data_prep.errors import InputError
from data_prep.reading.task_batches import BatchOrder, bucketed_batches
from data_prep.tasks.examples import ChoiceExample, Example, Problems
from data_prep.tasks.feature_cache import (
    cached_features,
    cached_windows,
    examples_hash,
    tokenizer_hash,
)
from data_prep.tasks.features import (
    Features,
    choice_features,
    is_per_token,
    text_features,
    word_features,
)
from data_prep.tasks.own_data import labels_of
from data_prep.tasks.reading import read_examples
from data_prep.tasks.task import TASKS, Task
from data_prep.tasks.text_rows import as_number, as_ordinals
from data_prep.tasks.windows import Window, window_features


@dataclass(frozen=True)
class Split:
    """A split of a task.

    Attributes:
      name: for example "dev_matched".
      examples: as read.
      features: the arrays of each example, in question answering of each window.
      windows: the windows of question answering; otherwise empty.
    """

    name: str
    examples: Sequence[Example]
    features: Sequence[Features]
    windows: Sequence[Window] = ()

    def __str__(self) -> str:
        shapes = [features["input_ids"].shape for features in self.features]
        windows = f", {len(self.windows):,} windows" if self.windows else ""
        return (
            f"{self.name}: {len(self.examples):,} examples{windows}, {sum(map(math.prod, shapes)):,} tokens, "
            f"longest {max(shape[-1] for shape in shapes)}"
        )


def read_split(
    task: Task, settings: FinetuningSettings, role: str, problems: Problems, labels: Sequence[str] = ()
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
    assert source, "checked by FinetuningSettings"
    read = [
        (name, read_examples(task, source, name, problems, columns=settings.columns, labels=labels))
        for name in names
    ]
    if settings.school:
        read = [(name, _of_school(examples, settings.school, source)) for name, examples in read]
    if task.name == "mnli" and role == "test" and not file and _has_diagnostic_set(Path(source)):
        read.append(("test", read_examples(TASKS["ax"], source, "test", problems)))
    return read


def _of_school(examples: Sequence[Example], school: str, source: str) -> list[Example]:
    """RACE's questions from one kind of school."""
    found: list[Example] = [one for one in examples if isinstance(one, ChoiceExample) and one.group == school]
    if not found:
        raise InputError(
            f"--{school}_only needs passages from {school} schools. Received {source} without any."
        )
    return found


def _has_diagnostic_set(folder: Path) -> bool:
    """Whether a folder holds AX, which models trained on MNLI predict."""
    places = (folder, folder / TASKS["ax"].folder, folder / "AX")
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
    if task.labels or not task.has_classes:
        return task.labels
    labels = labels_of(train)
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
    if task.kind == "ordinal_classification":
        as_ordinals(labels, order)  # raises InputError
    return tuple(order) or labels


def as_split(
    task: Task,
    name: str,
    examples: Sequence[Any],
    preprocessor: Preprocessor,
    labels: Sequence[str],
    cache_dir: str | None = None,
) -> Split:
    """Turns examples into a split named `name`.

    `cache_dir` keeps windows and passages, which take long to compute.
    """
    tokenizer, T = preprocessor.tokenizer, preprocessor.max_seq_length
    cache = Path(cache_dir) if cache_dir else None
    if isinstance(preprocessor, QuestionPreprocessor):
        lengths = (T, preprocessor.max_query_length, preprocessor.doc_stride)
        windows = cached_windows(cache, f"{task.name}-{name}", examples, tokenizer, *lengths)
        return Split(name, examples, window_features(windows), windows)
    if isinstance(preprocessor, ChoicePreprocessor):
        longest = preprocessor.max_qa_length
        key = [examples_hash(examples), tokenizer_hash(tokenizer), T, longest]
        features = cached_features(
            cache, f"{task.name}-{name}", key, lambda: choice_features(examples, tokenizer, T, longest)
        )
        return Split(name, examples, features)
    if task.kind == "token_classification":
        return Split(name, examples, word_features(examples, tokenizer, T, labels))
    labels = labels if task.has_classes else ()
    return Split(name, examples, text_features(examples, tokenizer, T, labels))


def with_class_weights(split: Split, task: Task, class_weights: str, labels: Sequence[str]) -> Split:
    """A split whose examples, or words, count as much in the loss as their classes.

    Args:
      split: for training.
      task: one with a class for each text or word.
      class_weights: the flag.
      labels: the classes in the model's order.

    Raises:
      InputError: the task has no such classes, or the flag names an unknown one.
    """
    if not task.has_classes or task.kind == "multi_label_classification":
        raise InputError(
            f"--class_weights needs a task with one class for each text or word. Received --task={task.name}."
        )
    is_words = task.kind == "token_classification"
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
    split: Split, batch_size: int, pad_to: int | None = None, *, seed: int | None = None, **options
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


def numpy_batches(split: Split, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
    """All examples once, in batches of similar lengths; for few examples faster than `split_batches`."""
    shapes = [features["input_ids"].shape for features in split.features]
    order = sorted(range(len(shapes)), key=lambda row: shapes[row])
    # A batch holds questions with the same number of options.
    for _, group in itertools.groupby(order, key=lambda row: shapes[row][:-1]):
        for rows in _cut(list(group), batch_size):
            yield {**_padded([split.features[row] for row in rows]), "index": np.array(rows, np.int32)}


def _cut(rows: list[int], size: int) -> Iterator[list[int]]:
    return (rows[begin : begin + size] for begin in range(0, len(rows), size))


def _padded(features: Sequence[Features]) -> dict[str, np.ndarray]:
    """The arrays of a batch, padded to its longest example, and `input_mask`."""
    T = max(example["input_ids"].shape[-1] for example in features)
    batch = {}
    for name in features[0]:
        values = [example[name] for example in features]
        if not is_per_token(name, values[0]):
            batch[name] = np.array(values)
            continue
        around = [(0, 0)] * (values[0].ndim - 1)
        batch[name] = np.stack([np.pad(value, [*around, (0, T - value.shape[-1])]) for value in values])
    if "input_mask" not in batch:
        sizes = np.array([len(example["input_ids"]) for example in features])
        batch["input_mask"] = (np.arange(T) < sizes[:, np.newaxis]).astype(np.int32)
    return batch
