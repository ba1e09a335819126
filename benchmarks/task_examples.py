"""The examples of benchmarks.finetuning, which all libraries train on, and the batches of other libraries."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from data_prep.files import read_json

RATE, WARMUP, STEPS = 1e-5, 1256, 20935  # SST-2 in the paper's Table 14

Example = dict[str, np.ndarray]  # as albert_tf.tasks.features makes them
# (a turn's examples, number of batches, the turn) -> the mean loss and the shapes (B, T) of the batches.
Train = Callable[[list[Example], int, int], tuple[float, list[tuple[int, int]]]]


def train_in_turns(
    make: Callable[[AlbertConfig, str, int, int], Train],
    file: str,
    config: dict[str, Any],
    dtype: str,
    B: int,
    length: int,
    batches: int,
) -> Callable[..., dict]:
    """A function that trains a library on the examples of one turn.

    Args:
      make: (config, dtype, B, length) -> the library's training.
      file: JSON with the examples of each turn.
      config: fields of `AlbertConfig`.
      dtype: float32 or bfloat16.
      B: examples per batch.
      length: T of batches of a fixed length.
      batches: the number of batches in a turn; turn 0, which compiles, has at most two.
    """
    turns = read_json(file)
    train = make(AlbertConfig.from_dict(config), dtype, B, length)

    def turn(number: int) -> dict:
        count = batches if number else min(2, batches)
        loss, shapes = train([_as_arrays(example) for example in turns[number]], count, number)
        return {
            "loss": float(loss),
            "batches": len(shapes),
            "examples": sum(rows for rows, _ in shapes),
            "padded_tokens": sum(rows * T for rows, T in shapes),
        }

    return turn


def _as_arrays(example: dict[str, Any]) -> Example:
    ids = np.array(example["input_ids"], np.int32)
    return {
        "input_ids": ids,
        "token_type_ids": np.zeros_like(ids),
        "label": np.array(example["label"], np.int32),
    }


def padded_batches(
    examples: Sequence[Example],
    B: int,
    count: int,
    seed: int,
    length: int | None = None,
    grouped: bool = False,
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches of examples in random order, with Hugging Face's names.

    Args:
      examples: of a turn.
      B: examples per batch.
      count: the number of batches.
      seed: of the order.
      length: T of all batches. Default: that of each batch's longest example.
      grouped: whether each batch has examples of similar length.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(examples))
    if grouped:
        order = order[np.argsort([-len(examples[i]["input_ids"]) for i in order], kind="stable")]
    for rows in rng.permutation(order[: len(order) // B * B].reshape(-1, B))[:count]:
        ids = [examples[row]["input_ids"] for row in rows]
        T = length or max(map(len, ids))
        yield {
            "input_ids": np.stack([np.pad(row, (0, T - len(row))) for row in ids]),
            "attention_mask": np.stack([np.arange(T) < len(row) for row in ids]).astype(np.int32),
            "token_type_ids": np.zeros((B, T), np.int32),
            "labels": np.array([examples[row]["label"] for row in rows]),
        }
