"""Measures throughput and latency of TensorFlow Serving over REST.

python -m examples.serve.load_test --texts=texts.txt --clients=8 --requests=1000
"""

import argparse
import itertools
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_prep.errors import InputError
from data_prep.files import read_text
from examples.serve.rest_client import URL, predict

_TEXTS = ("The captain [MASK] past the lighthouse.", "A [MASK] letter.", "It was a [MASK] and stormy night.")


@dataclass(frozen=True)
class Load:
    """The result of a load test.

    Attributes:
      seconds: from the first request to the last answer.
      latencies: of each request, in seconds.
    """

    seconds: float
    latencies: tuple[float, ...]

    @property
    def sentence(self) -> str:
        """The result as one sentence."""
        p50, p90, p99 = 1000 * np.percentile(self.latencies, (50, 90, 99))
        rate = len(self.latencies) / self.seconds
        return f"{rate:.1f} requests/s; latency {p50:.0f} ms (median), {p90:.0f} ms (90%), {p99:.0f} ms (99%)"


def load(url: str, texts: Sequence[str], clients: int, requests: int) -> Load:
    """Sends requests of one text each from `clients` parallel clients.

    Each client sends its next request when its last one is answered.

    Raises:
      InputError: a request failed.
    """

    def ask(text: str) -> float:
        began = time.perf_counter()
        predict(url, [text])
        return time.perf_counter() - began

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        latencies = tuple(pool.map(ask, itertools.islice(itertools.cycle(texts), requests)))
    return Load(time.perf_counter() - began, latencies)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default=URL)
    parser.add_argument("--texts", type=Path, help="one text per line; some are built in")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=200)
    flags = parser.parse_args()
    try:
        texts = read_text(flags.texts).splitlines() if flags.texts else _TEXTS
        if not texts or min(flags.clients, flags.requests) < 1:
            raise InputError(
                "--clients and --requests must be at least 1, and --texts must have a line. Received "
                f"{flags.clients}, {flags.requests} and {len(texts)} lines."
            )
        load(flags.url, texts, flags.clients, flags.clients)  # Serving may still be warming up
        print(load(flags.url, texts, flags.clients, flags.requests).sentence)
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
