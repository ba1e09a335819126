"""The examples of a split as arrays, batches of them, and the outputs of batches as rows, in NumPy."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from albert_tf.tasks.features import PADDING, Features, is_per_token
from data_prep.errors import check_at_least


class Example(Protocol):
    """One thing to predict; each form of examples has a class in its folder."""

    @property
    def id(self) -> str: ...


@dataclass(frozen=True)
class EncodedSplit:
    """A split of a task.

    Attributes:
      name: for example "dev_matched".
      examples: as read.
      features: the arrays of each example, in question answering of each window.
      windows: the windows of question answering; otherwise empty.
      words_beyond: the number of words at the ends of long sentences that are in no sequence.
    """

    name: str
    examples: Sequence[Example]
    features: Sequence[Features]
    windows: Sequence[Any] = ()
    words_beyond: int = 0

    def __str__(self) -> str:
        shapes = [features["input_ids"].shape for features in self.features]
        windows = f", {len(self.windows):,} windows" if self.windows else ""
        beyond = f", words beyond it: {self.words_beyond:,}" if self.words_beyond else ""
        return (
            f"{self.name}: {len(self.examples):,} examples{windows}, {sum(map(math.prod, shapes)):,} tokens, "
            f"longest {max(shape[-1] for shape in shapes)}{beyond}"
        )


def with_common_names(features: Sequence[Features]) -> list[Features]:
    """Features of the same names for a batch: labels count only if every example has them."""
    common = set.intersection(*map(set, features)) if features else set()
    return [{name: example[name] for name in example if name in common} for example in features]


@dataclass(frozen=True)
class BatchSize:
    """The most that a batch may hold.

    Attributes:
      rows: examples; in multiple choice all options of a question count as one.
      tokens: token positions, including padding; a single example may have more.
    """

    rows: int = 64
    tokens: int | None = None

    def __post_init__(self):
        check_at_least(1, self, "rows", "tokens")

    def cut(self, lengths: Sequence[int]) -> Iterator[slice]:
        """The batches of examples with rising lengths, in token positions."""
        begin = 0
        for end, length in enumerate(lengths):
            count = end - begin
            if count and (count == self.rows or (self.tokens and (count + 1) * length > self.tokens)):
                yield slice(begin, end)
                begin = end
        if lengths:
            yield slice(begin, len(lengths))


# Attention also computes padding: beside one long text, 63 short ones would cost as much as 63 long ones.
USUAL_SIZE = BatchSize(tokens=16_384)


def numpy_batches(
    features: Sequence[Features], size: BatchSize = USUAL_SIZE
) -> Iterator[dict[str, np.ndarray]]:
    """All examples once, in batches of similar lengths; faster than the batches of training for few examples."""
    shapes = [example["input_ids"].shape for example in features]
    order = sorted(range(len(shapes)), key=lambda row: shapes[row])
    # A batch holds questions with the same number of options.
    for _, group in itertools.groupby(order, key=lambda row: shapes[row][:-1]):
        rows = list(group)
        for part in size.cut([math.prod(shapes[row]) for row in rows]):
            batch = padded_batch([features[row] for row in rows[part]])
            yield {**batch, "index": np.array(rows[part], np.int32)}


def padded_batch(features: Sequence[Features]) -> dict[str, np.ndarray]:
    """The arrays of a batch, padded to its longest example, and `input_mask`."""
    T = max(example["input_ids"].shape[-1] for example in features)
    batch = {}
    for name in features[0]:
        values = [example[name] for example in features]
        if not is_per_token(name, values[0]):
            batch[name] = np.array(values)
            continue
        around = [(0, 0)] * (values[0].ndim - 1)
        fill = PADDING.get(name, 0)
        batch[name] = np.stack(
            [np.pad(value, [*around, (0, T - value.shape[-1])], constant_values=fill) for value in values]
        )
    if "input_mask" not in batch:
        sizes = np.array([len(example["input_ids"]) for example in features])
        batch["input_mask"] = (np.arange(T) < sizes[:, np.newaxis]).astype(np.int32)
    return batch


def by_row(outputs: Iterable[dict[str, np.ndarray]], number: int) -> list[dict[str, np.ndarray]]:
    """A model's outputs for batches, as one dict for each of `number` examples, in their order."""
    rows: list[dict[str, np.ndarray]] = [{} for _ in range(number)]
    for batch in outputs:
        for place, row in enumerate(batch["index"]):
            if row >= 0:
                rows[row] = {name: values[place] for name, values in batch.items() if name != "index"}
    assert all(rows), "every example is in a batch"
    return rows


def mean_loss(rows: Sequence[Mapping[str, np.ndarray]]) -> float:
    """The loss of a data set, independent of its batches."""
    return float(sum(row["loss"] for row in rows) / sum(row["loss_weight"] for row in rows))
