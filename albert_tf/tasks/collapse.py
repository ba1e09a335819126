"""Whether a model has learned nothing: it predicts the same for every example, or its loss is that of a guess."""

import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from albert_tf.tasks.probabilities import Probabilities

_SHARE = 0.05  # of the variety that labels have: predictions with less are all the same
_FEWEST = 5  # labels of other classes: with fewer, predictions may all be the same by chance
_SAME_PROBABILITY = 0.01
SHARE_OF_LOSS = 0.98  # of that of a guess: no better

Pairs = Sequence[tuple[Any, Any]]


def labelled(parts: Iterable[Probabilities]) -> list[tuple[np.ndarray, Any, Any]]:
    """Value, prediction and label of each example of several splits; none if labels are unknown."""
    return [
        row for part in parts for row in zip(part.values, part.predictions(), part.labels or (), strict=False)
    ]


def one_answer(pairs: Pairs, most: float = 0.9, shown: Callable[[Hashable], str] = repr) -> str:
    """What nearly all predictions are, if the labels are not nearly all the same.

    Args:
      pairs: the prediction and the label of each example.
      most: the share of the most frequent label above which labels are nearly all the same.
      shown: a prediction in the message.

    Returns:
      "" if predictions differ, or labels do not.

    >>> one_answer([("bad", "good"), ("bad", "bad")] * 50)
    "100 of 100 predictions are 'bad'"
    """
    (answer, count), *_ = Counter(prediction for prediction, _ in pairs).most_common(1) or [("", 0)]
    (_, frequent), *_ = Counter(label for _, label in pairs).most_common(1) or [("", 0)]
    other_labels = len(pairs) - frequent
    if other_labels < max(_FEWEST, (1 - most) * len(pairs)) or len(pairs) - count > _SHARE * other_labels:
        return ""
    return f"{count:,} of {len(pairs):,} predictions are {shown(answer)}"


def one_number(pairs: Pairs) -> str:
    """Which number all predictions are about, if labels are not; numbers, or vectors of them for each example."""
    if len(pairs) < _FEWEST:
        return ""
    predicted, labels = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    spread = labels.std(axis=0)
    if not np.any(spread) or np.any(predicted.std(axis=0) > _SHARE * spread):
        return ""
    mean = ", ".join(f"{value:.3g}" for value in np.atleast_1d(predicted.mean(axis=0)))
    return f"all {len(pairs):,} predictions are about {mean}"


def even_options(values: Sequence[np.ndarray]) -> str:
    """A message if the options of nearly every question have the same probability."""
    if not values or np.quantile([np.ptp(value) for value in values], 1 - _SHARE) > _SAME_PROBABILITY:
        return ""
    return "all options of a question have about the same probability"


def entropy(labels: Sequence[Hashable]) -> float:
    """The least mean cross-entropy, in nats, of predictions that are the same for every example."""
    shares = np.array([*Counter(labels).values()]) / len(labels)
    return float(-(shares * np.log(shares)).sum())


def stuck(losses: Sequence[float], of_guess: float = np.inf) -> str:
    """A message if the training loss neither falls below its start nor below that of a guess.

    Args:
      losses: in the order of the steps.
      of_guess: the loss of predictions that are the same for every example, if it is known.
    """
    if len(losses) < 4:
        return ""
    start, end = losses[0], statistics.median(losses[-(len(losses) // 4) :])
    if end < SHARE_OF_LOSS * min(start, of_guess):
        return ""
    return f"the training loss never left its start: {start:.3f} at first, {end:.3f} at the end"
