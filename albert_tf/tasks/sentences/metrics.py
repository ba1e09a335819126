"""How well vectors find the texts that belong together, as trec_eval measures it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.tasks.sentences.rows import SentenceExample

_RECALLS, _RANKS = (1, 10, 100), 10
_CHUNK = 1 << 24  # cosines that are computed at once
SELECTION = "score"  # the metric by which weights are chosen, whatever the data is


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors (..., D) of length 1; zeros stay zeros."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def cosines(vectors: Sequence[np.ndarray]) -> list[float]:
    """The cosine of the first two vectors of each example (C, D)."""
    return [float(first @ second) for first, second, *_ in map(unit, vectors)]


def retrieval_metrics(
    queries: np.ndarray,
    documents: np.ndarray,
    relevant: Sequence[Mapping[int, float]],
    itself: Sequence[int | None] | None = None,
) -> dict[str, float]:
    """nDCG@10, MRR@10, and recall@1, 10 and 100 of the documents with the highest cosines, means over queries.

    Args:
      queries: float32 (Q, D).
      documents: float32 (N, D). Of equal cosines, the first document's counts as higher.
      relevant: for each query the numbers of relevant documents and their gains, at least one.
      itself: for each query the number of the document that is the same text, and is not ranked.
    """
    most = min(len(documents), max(_RECALLS) + (itself is not None))
    discounts = 1 / np.log2(np.arange(2, _RANKS + 2))
    found = dict.fromkeys(("ndcg_at_10", "mrr_at_10", *(f"recall_at_{k}" for k in _RECALLS)), 0.0)
    size, documents = max(1, _CHUNK // len(documents)), unit(documents)
    for begin in range(0, len(queries), size):
        values = unit(queries[begin : begin + size]) @ documents.T
        for number, row in enumerate(values, start=begin):
            threshold = np.partition(row, -most)[-most]
            best = np.flatnonzero(row >= threshold)
            ranked = best[np.argsort(-row[best], kind="stable")][:most]
            if itself is not None:
                ranked = ranked[ranked != itself[number]]
            gains = relevant[number]
            gained = np.array([gains.get(int(document), 0.0) for document in ranked])
            ideal = np.sort(list(gains.values()))[::-1][:_RANKS]
            first = np.flatnonzero(gained[:_RANKS])
            gain = gained[:_RANKS] @ discounts[: len(gained)]
            found["ndcg_at_10"] += float(gain / (ideal @ discounts[: len(ideal)]))
            found["mrr_at_10"] += 1 / (1 + first[0]) if first.size else 0.0
            for k in _RECALLS:
                found[f"recall_at_{k}"] += np.count_nonzero(gained[:k]) / len(gains)
    return {name: float(value / len(queries)) for name, value in found.items()}


def sentence_metrics(examples: Sequence[SentenceExample], vectors: Sequence[np.ndarray]) -> dict[str, float]:
    """The correlations of scored pairs, otherwise what `retrieval_metrics` returns; {} for neither.

    Queries find their documents; first texts of pairs the second ones, among all other texts of the pairs; texts
    with classes the others of their class. `score` is the Spearman correlation, or nDCG@10.

    Args:
      examples: N examples.
      vectors: for each float32 (D,), or (C, D) for several texts.
    """
    pairs = [example for example in examples if len(example.texts) > 1]
    labels: list[Any] = [example.label for example in examples]
    if pairs and None not in labels:
        return score_metrics(cosines(vectors), labels)
    arguments = (
        _searched(examples, vectors) if pairs else _judged(examples, vectors) or _classes(labels, vectors)
    )
    if not arguments:
        return {}
    found = retrieval_metrics(*arguments)
    return {SELECTION: found["ndcg_at_10"], **found}


def score_metrics(predictions: Sequence[float], labels: Sequence[float]) -> dict[str, float]:
    """The correlations of predicted scores with the labels."""
    from albert_tf.tasks.texts.metrics import number_metrics  # imports SciPy

    found = number_metrics(predictions, labels)
    return {SELECTION: found["spearman"], **found}


def _judged(examples: Sequence[SentenceExample], vectors: Sequence[np.ndarray]) -> tuple:
    """The queries and documents of BEIR's layout."""
    queries = [i for i, example in enumerate(examples) if example.relevant]
    documents = [i for i, example in enumerate(examples) if not example.relevant]
    places = {examples[i].id: place for place, i in enumerate(documents)}
    relevant = [{places[name]: gain for name, gain in examples[i].relevant.items()} for i in queries]
    found = np.array(vectors)
    return (found[queries], found[documents], relevant) if queries else ()


def _searched(examples: Sequence[SentenceExample], vectors: Sequence[np.ndarray]) -> tuple:
    """The first texts of pairs as queries; their other texts as documents. Equal texts are one."""
    queries, documents = dict[str, np.ndarray](), dict[str, np.ndarray]()
    second: dict[str, set[str]] = {}
    for example, rows in zip(examples, vectors, strict=True):
        query, positive, *_ = example.texts
        queries.setdefault(query, rows[0])
        second.setdefault(query, set()).add(positive)
        for text, row in zip(example.texts[1:], rows[1:], strict=False):
            documents.setdefault(text, row)
    places = {text: place for place, text in enumerate(documents)}
    relevant = [{places[text]: 1.0 for text in second[query]} for query in queries]
    return np.array(list(queries.values())), np.array(list(documents.values())), relevant


def _classes(labels: Sequence[Any], vectors: Sequence[np.ndarray]) -> tuple:
    """Texts as queries for the others of their class."""
    groups: dict[Any, set[int]] = {}
    for number, label in enumerate(labels):
        groups.setdefault(label, set()).add(number)
    queries = [i for i, label in enumerate(labels) if label is not None and len(groups[label]) > 1]
    found = np.array(vectors)
    relevant = [dict.fromkeys(groups[labels[i]] - {i}, 1.0) for i in queries]
    return (found[queries], found, relevant, queries) if queries else ()
