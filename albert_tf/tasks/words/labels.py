"""From a model's outputs for tokens to labels of words."""

from collections.abc import Sequence

import numpy as np

from albert_tf.tasks.probabilities import softmax


def word_probabilities(
    words: int, word_index: np.ndarray, logits: np.ndarray, labels: Sequence[str]
) -> np.ndarray:
    """Probabilities (W, C) of words from logits (T, C); words beyond the longest sequence are outside entities.

    Args:
      words: W.
      word_index: the word that begins at each token, or -1; shape (T,).
      logits: of the tokens.
      labels: the C classes.
    """
    values = np.zeros((words, len(labels)))
    values[:, labels.index(outside_label(labels))] = 1.0
    places = np.flatnonzero(word_index >= 0)
    values[word_index[places]] = softmax(logits[places])
    return values


def outside_label(labels: Sequence[str]) -> str:
    """The label of words beyond the longest sequence."""
    return "O" if "O" in labels else labels[0]
