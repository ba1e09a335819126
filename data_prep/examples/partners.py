"""Other documents for next-sentence prediction: a bounded sample that depends only on the text and the seed.

documents --the N smallest hashes--> PartnerPool --chooser(document)--> rng -> sentences of another document
"""

import hashlib
import heapq
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from data_prep.errors import InputError
from data_prep.text.documents import Document
from data_prep.tokenizers.vocabulary import Tokenizer

NextSegment = Callable[[np.random.Generator], list[np.ndarray]]
POOL_DOCUMENTS = 1000
POOL_SENTENCES = 256  # per document, so that books do not fill the memory


@dataclass(frozen=True)
class PartnerPool:
    """Documents to draw random second segments from.

    Attributes:
      keys: identify the documents; ascending.
      documents: for each key the ids of its sentences, each int32 [at least 1].
      seed: seed of the keys.
    """

    keys: list[int]
    documents: list[list[np.ndarray]]
    seed: int

    def save(self, path: Path) -> None:
        """Writes the pool for other processes."""
        sentences = [sentence for document in self.documents for sentence in document]
        np.savez(
            path,
            keys=np.array(self.keys, np.uint64),
            tokens=np.concatenate(sentences) if sentences else np.zeros(0, np.int32),
            sentence_ends=np.cumsum(list(map(len, sentences)), dtype=np.int64),
            document_ends=np.cumsum(list(map(len, self.documents)), dtype=np.int64),
            seed=self.seed,
        )

    @classmethod
    def load(cls, path: Path) -> "PartnerPool":
        """Reads a pool that `save` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            sentences = np.split(arrays["tokens"], arrays["sentence_ends"][:-1])
            ends = [0, *arrays["document_ends"].tolist()]
            documents = [sentences[begin:end] for begin, end in pairwise(ends)]
            return cls(arrays["keys"].tolist(), documents, int(arrays["seed"]))

    def chooser(self, document: Document) -> NextSegment:
        """Returns a function rng -> sentences of a random other document, from a random sentence on."""
        key = document_key(document, self.seed)
        own = bisect_left(self.keys, key)
        holds_own = self.keys[own : own + 1] == [key]
        num_others = len(self.keys) - holds_own
        if not num_others:
            raise InputError(
                "--sentence_objective=nsp needs at least two different documents to draw from. Received one; "
                "separate documents by blank lines, or use --sentence_objective=sop."
            )

        def next_segment(rng: np.random.Generator) -> list[np.ndarray]:
            number = int(rng.integers(num_others))
            sentences = self.documents[number + (holds_own and number >= own)]
            return sentences[rng.integers(len(sentences)) :]

        return next_segment


class PartnerSample:
    """The documents with the smallest hashes of all that were added: a uniform sample.

    It depends neither on the order of the documents nor on how workers share them.
    """

    def __init__(self, seed: int):
        self.seed = seed
        self._heap: list[tuple[int, tuple[str, ...]]] = []  # (-key, sentences): the largest key is on top
        self._keys: set[int] = set()

    def add(self, document: Document) -> None:
        """Adds a document."""
        self._push(document_key(document, self.seed), tuple(document.sentences[:POOL_SENTENCES]))

    def merge(self, other: "PartnerSample") -> None:
        """Adds the documents of another sample."""
        for negative, sentences in other._heap:
            self._push(-negative, sentences)

    def pool(self, tokenizer: Tokenizer) -> PartnerPool:
        """Encodes the sample; documents without a piece are left out."""
        keys, encoded = [], []
        for negative, sentences in sorted(self._heap, reverse=True):
            ids = [row for row in tokenizer.encode_batch(list(sentences)) if len(row)]
            if ids:
                keys.append(-negative)
                encoded.append(ids)
        return PartnerPool(keys, encoded, self.seed)

    def _push(self, key: int, sentences: tuple[str, ...]) -> None:
        if key in self._keys or (len(self._heap) == POOL_DOCUMENTS and -key < self._heap[0][0]):
            return
        self._keys.add(key)
        heapq.heappush(self._heap, (-key, sentences))
        if len(self._heap) > POOL_DOCUMENTS:
            self._keys.discard(-heapq.heappop(self._heap)[0])


def document_key(document: Document, seed: int) -> int:
    """A number that identifies a document by its text."""
    key = hashlib.blake2b(f"partner {seed}\n".encode(), digest_size=8)
    key.update("\n".join(document.sentences).encode("utf-8", "surrogatepass"))
    return int.from_bytes(key.digest(), "little")
