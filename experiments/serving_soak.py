"""Checks that an exported text model serves for long: equal answers from many threads, and constant memory.

For example:

    python -m experiments.serving_soak --model=saved_model --text='books/*.txt'

Threads send batches of texts of all lengths, with 1 to 32 rows. Every answer is compared with the answer to the
same batch from one thread. Prints the memory of the process after each quarter of the calls. The exit status is 2
if an answer differs, or if memory grows after the first quarter.
"""

import json
import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_cli import program
from albert_tf.runtime.portable_folder import is_portable
from albert_tf.runtime.portable_loading import load_portable
from data_prep.errors import InputError, check_at_least
from data_prep.files import read_text
from data_prep.text.sources import expand_files

_MASK = "[MASK]"


@dataclass(frozen=True)
class SoakSettings:
    """What is served.

    Attributes:
      model: output of `albert export` of a kind that takes texts: fill-mask, embedding or classifier.
      text: text files with one text per line; globs and commas are allowed.
      calls: number of calls in all threads together.
      threads: number of threads that call at the same time.
      batches: number of different batches that the calls draw from.
      seed: seed of the batches and of their order.
      growth: memory in MB by which the process may grow after the first quarter of the calls.
    """

    model: Path
    text: str
    calls: int = 2000
    threads: int = 8
    batches: int = 200
    seed: int = 0
    growth: int = 64

    def __post_init__(self):
        check_at_least(1, self, "calls", "threads", "batches")


def main(settings: SoakSettings) -> dict[str, Any]:
    """Serves, prints the result, and raises if answers differ or memory grows."""
    answer = load(settings.model)
    draws = random.Random(settings.seed)
    batches = make_batches(settings, draws)
    expected = [answer(batch) for batch in batches]
    memory = [resident_megabytes()]
    order = [draws.randrange(len(batches)) for _ in range(settings.calls)]
    quarter = max(1, settings.calls // 4)
    different = 0
    with ThreadPoolExecutor(settings.threads) as pool:
        for start in range(0, settings.calls, quarter):
            part = order[start : start + quarter]
            found = pool.map(lambda i: same(answer(batches[i]), expected[i]), part)
            different += sum(not equal for equal in found)
            memory.append(resident_megabytes())
    result = {"calls": settings.calls, "different": different, "megabytes": memory}
    print(json.dumps(result))
    if different or memory[-1] - memory[1] > settings.growth:
        raise InputError(
            f"Answers must not change and memory must not grow by more than {settings.growth} MB. Received "
            f"{different} different answers, and memory of {memory} MB after each quarter of the calls."
        )
    return result


def load(folder: Path) -> Callable[[Sequence[str]], dict[str, np.ndarray]]:
    """A function from texts to the outputs of a SavedModel or of a portable model."""
    if is_portable(folder):
        return load_portable(folder)
    if not (folder / "saved_model.pb").exists():
        raise InputError(
            f"--model must be a SavedModel or a portable model. Received {folder}, which has no saved_model.pb "
            "and no portable.json."
        )
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers the operations of the tokenizer

    model = tf.saved_model.load(folder)
    serve = model.signatures["serving_default"]
    names = list(serve.structured_input_signature[1])
    if len(names) != 1:
        raise InputError(f"--model must take one text for each row. Received {folder}, which takes {names}.")

    def answer(texts: Sequence[str]) -> dict[str, np.ndarray]:
        outputs = serve(**{names[0]: tf.constant(list(texts))})
        return {name: value.numpy() for name, value in outputs.items()}

    return answer


def make_batches(settings: SoakSettings, draws: random.Random) -> list[list[str]]:
    """Batches of 1 to 32 pieces of text, of 1 to 400 words, each with one [MASK]."""
    words = [word for file in expand_files(settings.text) for word in read_text(file).split()]
    if not words:
        raise InputError(f"--text must hold words. Received {settings.text}, which holds none.")
    batches = []
    for _ in range(settings.batches):
        longest = draws.choice((5, 20, 100, 400))
        batch = []
        for _ in range(draws.choice((1, 1, 2, 8, 32)) if longest < 100 else draws.choice((1, 2, 4))):
            start = draws.randrange(len(words))
            text = words[start : start + draws.randint(1, longest)]
            text.insert(draws.randint(0, len(text)), _MASK)
            batch.append(" ".join(text))
        batches.append(batch)
    return batches


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    """Whether two answers are equal, but for the order of sums in floating point."""
    return found.keys() == expected.keys() and all(_close(found[name], expected[name]) for name in expected)


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    return np.allclose(a, b, atol=1e-4) if np.issubdtype(a.dtype, np.floating) else bool((a == b).all())


def resident_megabytes() -> int:
    """The memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 >> 20


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, SoakSettings, __doc__))
