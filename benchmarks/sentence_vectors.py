"""Trains the same sentence encoder on the same pairs here and in sentence-transformers, and searches with both.

For example:

    python -m benchmarks.sentence_vectors --pairs=pairs.csv --output=search --peers_python=peers/bin/python

The pairs are a file like --train_file of `albert finetune --task=embedding`. The first texts of some pairs, which
are not trained on, are searched for among the second texts of all. TF-IDF and BM25, which know words alone, are
the floors. The libraries compute in turns, each in a process of its own, so that both have the same machine.
"""

import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_cli import program
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.sentences.metrics import retrieval_metrics
from albert_tf.tasks.task import find_task
from benchmarks.processes import Peer, albert, take_turns
from benchmarks.report import markdown_table
from data_prep.errors import needs_extra
from data_prep.files import write_json, write_text

_ENCODINGS = 3
_SHOWN = ("ndcg_at_10", "mrr_at_10", "recall_at_1", "recall_at_10")


@dataclass(frozen=True)
class SearchSettings:
    """The flags.

    Attributes:
      pairs: file of pairs of texts.
      output: folder for the model, vectors, report.json and results.md.
      init_checkpoint: pretrained model to start from.
      peers_python: Python that has sentence-transformers.
      queries: number of pairs that are searched for.
      steps: number of training steps.
      turns: number of turns in which they are taken.
      batch_size: number of pairs per step.
      learning_rate: the highest.
      temperature: divides cosines.
      max_seq_length: longest text, in tokens.
    """

    pairs: str
    output: Path
    init_checkpoint: str = "albert_small_en"
    peers_python: str = sys.executable
    queries: int = 500
    steps: int = 200
    turns: int = 5
    batch_size: int = 32
    learning_rate: float = 2e-4
    temperature: float = 0.05
    max_seq_length: int = 64


def main(settings: SearchSettings) -> dict[str, Any]:
    """Trains, searches, and writes the table and the report."""
    examples: list[Any] = read_examples(find_task("embedding"), settings.pairs, "train", Problems())
    rows = [example.texts[:2] for example in np.random.default_rng(0).permutation(np.array(examples, object))]
    documents = {second: place for place, second in enumerate(dict.fromkeys(second for _, second in rows))}
    relevant = [{documents[second]: 1.0} for _, second in rows[: settings.queries]]
    texts = [*(first for first, _ in rows[: settings.queries]), *documents]
    settings.output.mkdir(parents=True, exist_ok=True)
    model, data = settings.output / "model", settings.output / "data.json"
    if not model.exists():
        albert("convert", settings.init_checkpoint, model, to="huggingface")
    write_json(data, {"pairs": rows[settings.queries :], "texts": texts})
    report: dict[str, Any] = {"settings": {name: str(value) for name, value in vars(settings).items()}}
    for name, vectors in floors(texts, settings.queries).items():
        report[name] = retrieval_metrics(vectors[: settings.queries], vectors[settings.queries :], relevant)
    for name, found in measure(settings, model, data).items():
        vectors = np.load(settings.output / f"{name}.npy")
        queries, others = vectors[: settings.queries], vectors[settings.queries :]
        report[name] = {**found, **retrieval_metrics(queries, others, relevant)}
        report[name]["encoded_per_second"] = len(texts) / found["encoding_seconds"]
    write_json(settings.output / "report.json", report)
    table = [_row(name, found) for name, found in report.items() if name != "settings"]
    header = ("", *_SHOWN, "pairs/s in training", "texts/s in encoding")
    write_text(settings.output / "results.md", markdown_table(header, table) + "\n")
    print((settings.output / "results.md").read_text())
    return report


def _row(name: str, found: dict[str, float]) -> list[str]:
    speeds = [found.get(f"{what}_per_second") for what in ("trained", "encoded")]
    metrics = [f"{found[metric]:.3f}" for metric in _SHOWN]
    return [name, *metrics, *(f"{speed:,.1f}" if speed else "" for speed in speeds)]


def measure(settings: SearchSettings, model: Path, data: Path) -> dict[str, dict[str, float]]:
    """The median speed of training, of all turns but the first, and of encoding, by library."""
    peers = [
        Peer(
            name,
            f"benchmarks.libraries.sentence_encoders:{function}",
            {
                "model": str(model),
                "data": str(data),
                "vectors": str(settings.output / f"{name}.npy"),
                "total": settings.steps,
                "B": settings.batch_size,
                "length": settings.max_seq_length,
                "rate": settings.learning_rate,
                "temperature": settings.temperature,
            },
            settings.output,
            python,
        )
        for name, function, python in (
            ("albert_tf", "ours", sys.executable),
            ("sentence_transformers", "sentence_transformers", settings.peers_python),
        )
    ]
    each = settings.steps // settings.turns
    peers = take_turns(peers, [*[{"steps": each}] * settings.turns, *[{}] * _ENCODINGS])
    found = {}
    for peer in peers:
        training, encoding = peer.replies[1 : settings.turns], peer.replies[settings.turns + 1 :]
        found[peer.name] = {
            "loss": peer.replies[settings.turns - 1]["loss"],
            "trained_per_second": each
            * settings.batch_size
            / statistics.median(reply["seconds"] for reply in training),
            "encoding_seconds": statistics.median(reply["seconds"] for reply in encoding),
        }
        peer.stop()
    return found


def floors(texts: list[str], queries: int, k1: float = 1.2, b: float = 0.75) -> dict[str, np.ndarray]:
    """Vectors whose cosines rank as TF-IDF, and vectors whose products rank as BM25, float32 (N, V).

    BM25's have one more dimension, which gives all documents the same length, and queries 0.
    """
    with needs_extra("The floors", "scikit-learn", "metrics"):
        from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    tf_idf = TfidfVectorizer(sublinear_tf=True).fit(texts[queries:]).transform(texts)
    counts = CountVectorizer().fit(texts[queries:]).transform(texts).toarray().astype(np.float32)
    documents = counts[queries:]
    lengths = documents.sum(axis=1, keepdims=True)
    frequency = (documents > 0).sum(axis=0)
    idf = np.log1p((len(documents) - frequency + 0.5) / (frequency + 0.5))
    weights = (
        idf * documents * (k1 + 1) / (documents + k1 * (1 - b + b * lengths / np.maximum(lengths.mean(), 1)))
    )
    squares = np.square(weights).sum(axis=1, keepdims=True)
    weights = np.hstack([weights, np.sqrt(squares.max() - squares)])
    asked = np.hstack([np.minimum(counts[:queries], 1), np.zeros((queries, 1))])
    return {
        "TF-IDF": tf_idf.toarray().astype(np.float32),
        "BM25": np.vstack([asked, weights]).astype(np.float32),
    }


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, SearchSettings, __doc__))
