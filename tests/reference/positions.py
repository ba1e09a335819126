"""Longer position tables, row by row."""

import numpy as np


def tiled_rows(learned: np.ndarray, length: int) -> np.ndarray:
    """Row i is row 1 + (i - 1) mod (T - 1) of the T learned rows; row 0, [CLS]'s, stays alone."""
    T = len(learned)
    return np.stack([learned[0 if i == 0 else 1 + (i - 1) % (T - 1)] for i in range(length)])
