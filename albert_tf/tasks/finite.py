"""The check of results: weights can be NaN, or finite and too large to compute with."""

from collections.abc import Iterable

import numpy as np

from data_prep.errors import InputError


def check_finite(results: str, arrays: Iterable[np.ndarray]) -> None:
    """Raises InputError if an array of results, such as "Vectors", holds NaN or infinity."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise InputError(
            f"{results} must be finite numbers. Received NaN or infinity: the model's weights are NaN or too "
            "large to compute with. Check where it comes from, and whether its training diverged."
        )
