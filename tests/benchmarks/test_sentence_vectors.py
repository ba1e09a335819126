"""The floors of the search: BM25 as its formula has it."""

import math

import numpy as np

from albert_tf.tasks.sentences.metrics import unit
from benchmarks.sentence_vectors import floors

QUERIES = ["the captain ship", "dog loud"]
DOCUMENTS = ["one captain sailed the ship", "the dog barks loud loud", "the house of the neighbour"]


def bm25(query: list[str], document: list[str], documents: list[list[str]]) -> float:
    mean = sum(map(len, documents)) / len(documents)
    total = 0.0
    for word in set(query):
        n, count = sum(word in other for other in documents), document.count(word)
        idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
        total += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(document) / mean))
    return total


def test_bm25():
    found = floors([*QUERIES, *DOCUMENTS], len(QUERIES))
    words = [text.split() for text in DOCUMENTS]
    expected = [[bm25(query.split(), document, words) for document in words] for query in QUERIES]
    queries, documents = found["BM25"][:2], found["BM25"][2:]
    np.testing.assert_allclose(queries @ documents.T, expected, rtol=1e-5)
    np.testing.assert_array_equal(np.argsort(unit(queries) @ unit(documents).T), np.argsort(expected))
    tf_idf = unit(found["TF-IDF"])
    assert (tf_idf[:2] @ tf_idf[2:].T).argmax(axis=1).tolist() == [0, 1]
