"""A small generated text, for tests."""

from pathlib import Path

import numpy as np

SUBJECTS = ["the captain", "our old gardener", "a quiet neighbour", "her youngest brother", "the café owner"]
VERBS = ["sailed past", "looked after", "had forgotten", "would never sell", "painted", "carefully unpacked"]
OBJECTS = ["the lighthouse", "twelve empty bottles", "an unremarkable letter", "300 apples", "those clocks"]
ENDS = [".", "!", ", in 1987.", " (without asking).", "; nobody noticed.", ", for £3,000.", " on 24 or 56."]


def write_story(path: Path, documents: int = 12, sentences: int = 25, seed: int = 0) -> Path:
    """Writes documents of 2 to `sentences` sentences in the "lines" format."""
    rng = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(documents):
            for _ in range(rng.integers(2, sentences + 1)):
                words = " ".join(str(rng.choice(part)) for part in (SUBJECTS, VERBS, OBJECTS))
                file.write(words.capitalize() + str(rng.choice(ENDS)) + "\n")
            file.write("\n")
    return path
