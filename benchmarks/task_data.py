"""Measures the reading of a task's data: problems found, examples per second, and padding in batches.

For example:

    python -m benchmarks.task_data --task=sst-2 --data_dir=glue_data --spm_model_file=30k-clean.model

Prints one JSON object. `padding` is the share of padding in an epoch: in batches of similar lengths, in shuffled
batches padded to their longest example, and in batches padded to `max_seq_length`, as the original pads.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from albert_cli import program
from albert_tf.tasks.choice.features import choice_features
from albert_tf.tasks.choice.kind import OPTIONS
from albert_tf.tasks.features import Features
from albert_tf.tasks.kind import Task
from albert_tf.tasks.own_data import labels_of
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.spans.kind import SPANS
from albert_tf.tasks.spans.windows import question_windows, window_features
from albert_tf.tasks.task import find_task
from albert_tf.tasks.texts.features import text_features
from albert_tf.tasks.words.features import word_features
from albert_tf.tasks.words.kind import WORDS
from data_prep.tokenizers.vocabulary import Tokenizer, load_tokenizer


@dataclass(frozen=True)
class TaskDataSettings:
    """What is measured.

    Attributes:
      task: name of the task.
      data_dir: folder or file of the task, or tfds:NAME.
      spm_model_file: SentencePiece model of the vocabulary.
      split: split to read.
      max_seq_length: maximum length in tokens; windows of question answering have at most 384.
      batch_size: number of examples per batch.
    """

    task: str
    data_dir: str
    spm_model_file: str
    split: str = "train"
    max_seq_length: int = 512
    batch_size: int = 32


def main(settings: TaskDataSettings) -> dict[str, Any]:
    """Measures a split and prints the result."""
    task, problems = find_task(settings.task), Problems()
    tokenizer = load_tokenizer(settings.spm_model_file, None, None)
    tokenizer.encode_with_offsets("its tables are made now")

    start = time.perf_counter()
    examples = read_examples(task, settings.data_dir, settings.split, problems)
    read = time.perf_counter()
    features = make_features(task, examples, tokenizer, settings.max_seq_length)
    made = time.perf_counter()

    lengths = np.array([arrays["input_ids"].shape[-1] for arrays in features])
    result = {
        "task": task.name,
        "split": settings.split,
        "examples": len(examples),
        "sequences": len(features),
        "problems": problems.lines(),
        "tokens_mean": round(float(lengths.mean()), 1),
        "tokens_longest": int(lengths.max()),
        "examples_per_second": {
            "read": round(len(examples) / (read - start)),
            "features": round(len(examples) / (made - read)),
        },
        "batch_size": settings.batch_size,
        "padding": padding(features, settings),
    }
    print(json.dumps(result, ensure_ascii=False, indent=2))
    return result


def make_features(
    task: Task, examples: Sequence[Any], tokenizer: Tokenizer, max_seq_length: int
) -> list[Features]:
    """The arrays of a task's examples."""
    if task.kind is SPANS:
        return window_features(question_windows(examples, tokenizer, min(384, max_seq_length)))
    if task.kind is OPTIONS:
        return choice_features(examples, tokenizer, max_seq_length)
    labels = task.labels or (labels_of(task.kind, examples) if task.kind.has_classes else ())
    if task.kind is WORDS:
        return word_features(examples, tokenizer, max_seq_length, labels)
    return text_features(examples, tokenizer, max_seq_length, labels)


def padding(features: Sequence[Features], settings: TaskDataSettings) -> dict[str, float]:
    """The share of padding in an epoch for each of three ways to batch."""
    from albert_tf.tasks.task_batches import BatchOrder, bucketed_batches

    shares = {}
    for name, by_length, pad_to in (
        ("like_length", True, None),
        ("as_they_come", False, None),
        ("to_max_seq_length", False, settings.max_seq_length),
    ):
        order = BatchOrder(0, by_length=by_length)
        batches = bucketed_batches(features, settings.batch_size, order, pad_to=pad_to)
        masks = [batch["input_mask"] for batch in batches.as_numpy_iterator()]
        shares[name] = round(1 - sum(int(m.sum()) for m in masks) / sum(m.size for m in masks), 4)
    return shares


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, TaskDataSettings, __doc__))
