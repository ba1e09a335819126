"""Position tables of another length: the rows that were learned, repeated (Beltagy et al. 2020, section 5)."""

import numpy as np

from albert_tf.config import ResizePositions

POSITION_TABLE = "position_embeddings"  # in the names of the table and its moments


def tile_positions(learned: np.ndarray, length: int) -> np.ndarray:
    """A position table, or its moments, with another number of rows.

    A shorter table has the first rows. In a longer one, row i is row 1 + (i - 1) mod (T - 1): row 0 belongs to
    [CLS] and is not repeated.

    >>> tile_positions(np.array([[0], [1], [2]]), 6).ravel()
    array([0, 1, 2, 1, 2, 1])

    Args:
      learned: (T, E), T at least 2.
      length: the number of rows to return.

    Returns:
      (length, E), of the same dtype.
    """
    return np.concatenate([learned[:1], np.resize(learned[1:], (length - 1, *learned.shape[1:]))])


def resized_table(learned: np.ndarray, current: np.ndarray, method: ResizePositions) -> np.ndarray:
    """The values of a position table that is filled from one of another length.

    Args:
      learned: (T, E), the rows to take.
      current: the table's present values; "fresh" keeps those of the rows beyond T.
      method: the flag --resize_positions.

    Returns:
      An array shaped like `current`.
    """
    if method == "fresh":
        return np.concatenate([learned[: len(current)], current[len(learned) :]])
    return tile_positions(learned, len(current))
