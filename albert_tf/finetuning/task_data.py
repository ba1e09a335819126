"""The splits of a task as arrays: what a run trains on, evaluates and predicts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.preprocessor import Preprocessor, QuestionPreprocessor
from albert_tf.finetuning.settings import FinetuningSettings
from data_prep.tasks.batches import bucketed_batches
from data_prep.tasks.examples import Example
from data_prep.tasks.features import Features, choice_features, text_features, word_features
from data_prep.tasks.own_data import labels_of
from data_prep.tasks.problems import Problems
from data_prep.tasks.reading import read_examples
from data_prep.tasks.task import Task
from data_prep.tasks.windows import Window, window_features


@dataclass(frozen=True)
class Split:
    """A split of a task.

    Attributes:
      name: for instance "dev_matched".
      examples: as they were read.
      features: arrays of each example; in question answering of each window.
      windows: in question answering, else none.
    """

    name: str
    examples: Sequence[Example]
    features: Sequence[Features]
    windows: Sequence[Window] = ()

    @property
    def tokens(self) -> int:
        """How many there are, without padding."""
        return sum(int(np.prod(features["input_ids"].shape)) for features in self.features)

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return max(features["input_ids"].shape[-1] for features in self.features)

    def in_words(self) -> str:
        """For people."""
        windows = f", {len(self.windows):,} windows" if self.windows else ""
        return (
            f"{self.name}: {len(self.examples):,} examples{windows}, {self.tokens:,} tokens, "
            f"longest {self.longest}"
        )


def read_split(
    task: Task, settings: FinetuningSettings, role: str, problems: Problems, labels: Sequence[str] = ()
) -> list[tuple[str, list[Example]]]:
    """Names and examples of the splits that play a role.

    Args:
      task: from `find_task`.
      settings: say where the data are.
      role: "train", "dev" or "test".
      problems: collects rows that cannot be used.
      labels: of own data, the classes that are known; a label outside them is a problem.

    Raises:
      InputError: there are none.
    """
    file = getattr(settings, f"{role}_file")
    source, names = (file, (role,)) if file else (settings.data_dir, task.splits[role])
    assert source, "the settings have been checked"
    return [
        (name, read_examples(task, source, name, problems, columns=settings.columns, labels=labels))
        for name in names
    ]


def classes_of(task: Task, train: Sequence[Example]) -> tuple[str, ...]:
    """The classes of a task, in the model's order; of own data those of the training examples.

    Raises:
      InputError: there are not at least two.
    """
    if task.labels or task.kind not in ("classification", "token_classification"):
        return task.labels
    labels = labels_of(train)
    if len(labels) < 2:
        raise InputError(
            f"{task.name} needs examples of two classes or more. Received {', '.join(labels) or 'none'} in the "
            "training data."
        )
    return labels


def as_split(
    task: Task,
    name: str,
    examples: Sequence[Any],
    preprocessor: Preprocessor,
    labels: Sequence[str],
) -> Split:
    """Examples as arrays.

    Args:
      task: says which.
      name: of the split.
      examples: of the task's kind.
      preprocessor: the model's.
      labels: the classes in the model's order.
    """
    tokenizer, T = preprocessor.tokenizer, preprocessor.max_seq_length
    if isinstance(preprocessor, QuestionPreprocessor):
        windows = preprocessor.windows(examples)
        return Split(name, examples, window_features(windows), windows)
    if task.kind == "multiple_choice":
        return Split(name, examples, choice_features(examples, tokenizer, T))
    if task.kind == "token_classification":
        return Split(name, examples, word_features(examples, tokenizer, T, labels))
    labels = labels if task.kind == "classification" else ()
    return Split(name, examples, text_features(examples, tokenizer, T, labels))


def train_batches(split: Split, settings: FinetuningSettings, seed: int) -> Callable[[int], tf.data.Dataset]:
    """A function from the number of steps that were taken to the batches that follow, without an end."""
    assert settings.train_batch_size
    batch_size = settings.train_batch_size

    def batches(steps: int) -> tf.data.Dataset:
        return bucketed_batches(
            split.features,
            batch_size,
            seed=seed,
            num_epochs=None,
            skip_batches=steps,
            by_length=not settings.pad_to_max_length,
            fill_remainder=True,
            pad_to=settings.max_seq_length if settings.pad_to_max_length else None,
        )

    return batches


def eval_batches(split: Split, settings: FinetuningSettings) -> tf.data.Dataset:
    """All examples once, in batches of similar lengths."""
    return bucketed_batches(
        split.features,
        settings.eval_batch_size,
        seed=None,
        by_length=not settings.pad_to_max_length,
        fill_remainder=True,
        pad_to=settings.max_seq_length if settings.pad_to_max_length else None,
    )


def prediction_batches(split: Split, batch_size: int) -> tf.data.Dataset:
    """All examples once, in batches of similar lengths, for a few examples too."""
    return bucketed_batches(split.features, batch_size, seed=None, by_length=True)
