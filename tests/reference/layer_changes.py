"""Figure 1 in plain NumPy, one layer and one token at a time."""

import itertools
import math

import numpy as np


def layer_changes(states):
    """L + 1 arrays (T, H) -> (L, 3): each layer's L2 distance, cosine and angle in degrees, means over tokens."""
    rows = []
    for before, after in itertools.pairwise(states):
        of_tokens = []
        for x, y in zip(np.asarray(before, np.float64), np.asarray(after, np.float64), strict=True):
            cosine = float(x @ y) / math.sqrt(float(x @ x) * float(y @ y))
            distance = math.sqrt(float(((x - y) ** 2).sum()))
            of_tokens.append((distance, cosine, math.degrees(math.acos(max(-1.0, min(1.0, cosine))))))
        rows.append(np.mean(of_tokens, axis=0))
    return np.array(rows)
