"""Measures the reading of a task's data: problems found, examples per second, and padding in batches.

For example:

    python -m benchmarks.task_data --task=sst-2 --data_dir=glue_data --spm_model_file=30k-clean.model

Prints one JSON object. `padding` is the share of padding in an epoch: in batches of similar lengths, in shuffled
batches padded to their longest example, and in batches padded to `max_seq_length`, as the original pads.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from albert_cli import program
from albert_tf.tasks.examples import Problems
from albert_tf.tasks.features import Features, choice_features, text_features, word_features
from albert_tf.tasks.own_data import labels_of
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.spans.windows import question_windows, window_features
from albert_tf.tasks.task import Task, find_task
from data_prep.tokenizers.vocabulary import Tokenizer, load_tokenizer


@dataclass(frozen=True)
class TaskDataSettings:
    """What is measured.

    Attributes:
      task: name of the task.
      data_dir: folder or file of the task, or tfds:NAME.
      split: split to read.
      spm_model_file: SentencePiece model of the vocabulary.
      vocab_file: WordPiece vocab.txt in place of --spm_model_file, for example of a Chinese checkpoint.
      do_lower_case: --nodo_lower_case declares a cased vocabulary. Default: what the settings file beside the
        vocabulary says, or lower case without one.
      max_seq_length: maximum length in tokens; windows of question answering have at most 384.
      batch_size: number of examples per batch.
      seed: seed of the order of examples.
    """

    task: str
    data_dir: str
    split: str = "train"
    spm_model_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    max_seq_length: int = 512
    batch_size: int = 32
    seed: int = 0


def main(settings: TaskDataSettings) -> dict[str, Any]:
    """Measures a split and prints the result."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    task, problems = find_task(settings.task), Problems()
    tokenizer = load_tokenizer(settings.spm_model_file, settings.vocab_file, settings.do_lower_case)
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
    if task.kind == "question_answering":
        return window_features(question_windows(examples, tokenizer, min(384, max_seq_length)))
    if task.kind == "multiple_choice":
        return choice_features(examples, tokenizer, max_seq_length)
    labels = () if task.kind == "regression" else task.labels or labels_of(examples)
    if task.kind == "token_classification":
        return word_features(examples, tokenizer, max_seq_length, labels)
    return text_features(examples, tokenizer, max_seq_length, labels)


def padding(features: Sequence[Features], settings: TaskDataSettings) -> dict[str, float]:
    """The share of padding in an epoch for each of three ways to batch; each has every example once."""
    from albert_tf.tasks.task_batches import BatchOrder, bucketed_batches

    similar, mixed = (BatchOrder(settings.seed, by_length=by_length) for by_length in (True, False))
    ways: dict[str, tuple[BatchOrder, int | None]] = {
        "like_length": (similar, None),
        "as_they_come": (mixed, None),
        "to_max_seq_length": (mixed, settings.max_seq_length),
    }
    shares = {}
    for name, (order, pad_to) in ways.items():
        tokens = places = 0
        rows: list[int] = []
        batches = bucketed_batches(features, settings.batch_size, order, pad_to=pad_to)
        for batch in batches.as_numpy_iterator():
            rows += batch["index"].tolist()
            tokens += int(batch["input_mask"].sum())
            places += batch["input_mask"].size
        assert sorted(rows) == list(range(len(features)))
        shares[name] = round(1 - tokens / places, 4)
    return shares


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, TaskDataSettings, __doc__))
