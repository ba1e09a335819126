"""Measures tokens per second on one core: the tokenizer class, bare SentencePiece, and the TensorFlow graph.

For example:

    python -m benchmarks.tokenization --spm_model_file=30k-clean.model --input_file='books/*.md'

Prints one JSON object. The variants take turns, so that other work on the machine affects all of them; `ratio` is
a variant's median rate divided by bare SentencePiece's. Bare SentencePiece takes normalized text and returns lists
of ids, so it is an upper bound for any ALBERT tokenizer built on it.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sentencepiece

from albert_cli import program
from data_prep.errors import check_at_least
from data_prep.files import read_text
from data_prep.text.sources import expand_files
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.normalization import normalize

Variants = dict[str, Callable[[], Any]]


@dataclass(frozen=True)
class TokenizationSettings:
    """What is measured.

    Attributes:
      spm_model_file: SentencePiece model of the vocabulary.
      input_file: text files to tokenize; globs and commas are allowed.
      megabytes: size of the text to tokenize, in MB.
      batch_size: number of lines per call, as in a tf.data pipeline.
      runs: number of interleaved runs of each variant.
    """

    spm_model_file: str
    input_file: str
    megabytes: float = 4.0
    batch_size: int = 256
    runs: int = 7

    def __post_init__(self):
        check_at_least(1, self, "batch_size", "runs")


def main(settings: TokenizationSettings) -> None:
    """Measures all variants and prints the result."""
    lines = read_lines(settings.input_file, int(settings.megabytes * 1e6))
    B = settings.batch_size
    batches = [lines[i : i + B] for i in range(0, len(lines), B)]
    tokenizer = AlbertTokenizer(settings.spm_model_file)
    variants = {**python_variants(tokenizer, batches), **graph_variants(tokenizer, batches)}
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for run in range(settings.runs + 1):  # the first is not counted
        for name, variant in variants.items():
            start = time.perf_counter()
            variant()
            if run:
                seconds[name].append(time.perf_counter() - start)
    tokens = sum(len(ids) for ids in tokenizer.encode_batch(lines))
    rates = {name: tokens / statistics.median(times) for name, times in seconds.items()}
    result = {
        "lines": len(lines),
        "tokens": tokens,
        "batch_size": B,
        "runs": settings.runs,
        "tokens_per_second": {name: round(rate) for name, rate in rates.items()},
        "ratio": {name: round(rate / rates["sentencepiece"], 3) for name, rate in rates.items()},
    }
    print(json.dumps(result, indent=2))


def read_lines(input_file: str, most_bytes: int) -> list[str]:
    """The first non-blank lines of the files, up to a number of bytes."""
    lines: list[str] = []
    for path in expand_files(input_file):
        for line in filter(str.strip, read_text(path).splitlines()):
            if most_bytes <= 0:
                return lines
            lines.append(line)
            most_bytes -= len(line.encode("utf-8"))
    return lines


def python_variants(tokenizer: AlbertTokenizer, batches: list[list[str]]) -> Variants:
    """Bare SentencePiece and the class, without and with offsets."""
    bare = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.serialized_model)
    normalized = [[normalize(line) for line in lines] for lines in batches]
    return {
        "sentencepiece": lambda: [bare.encode(lines, num_threads=1) for lines in normalized],
        "class": lambda: [tokenizer.encode_batch(lines) for lines in batches],
        "class_with_offsets": lambda: [tokenizer.encode_batch_with_offsets(lines) for lines in batches],
    }


def graph_variants(tokenizer: AlbertTokenizer, batches: list[list[str]]) -> Variants:
    """The graph in a tf.data pipeline, and tensorflow-text's bare SentencePiece op in its place."""
    import tensorflow as tf
    import tensorflow_text as tf_text

    from data_prep.in_graph.albert_tokenizer import GraphAlbertTokenizer

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    graph = GraphAlbertTokenizer(tokenizer)
    bare = tf_text.SentencepieceTokenizer(model=tokenizer.serialized_model)
    lines = tf.data.Dataset.from_generator(lambda: batches, output_signature=tf.TensorSpec([None], tf.string))
    cached = lines.cache().with_options(options)
    list(cached)

    def drained(function: Callable) -> Callable[[], Any]:
        dataset = cached.map(function)
        return lambda: [None for _ in dataset]

    return {
        "tensorflow_text_sentencepiece": drained(bare.tokenize),
        "graph": drained(graph.tokenize),
        "graph_with_offsets": drained(graph.tokenize_with_offsets),
    }


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, TokenizationSettings, __doc__))
