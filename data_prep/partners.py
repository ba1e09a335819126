"""Other documents for next-sentence prediction: a bounded sample that depends on the text and the seed alone.

documents --the N smallest hashes--> PartnerPool --chooser(document)--> rng -> sentences of another document
"""

import hashlib
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from albert_tf.errors import InputError
from data_prep.documents import Document
from data_prep.tokenizer import AlbertTokenizer

NextSegment = Callable[[np.random.Generator], list[np.ndarray]]
POOL_DOCUMENTS = 1000
POOL_SENTENCES = 256  # of each document, so that a book does not fill the memory


@dataclass(frozen=True)
class PartnerPool:
    """Documents to draw random second segments from.

    Attributes:
      keys: what tells one document from the other, in ascending order.
      documents: for each key the ids of its sentences, int32 [at least 1] each.
      seed: what the keys were made with.
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
        """Reads what `save` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            sentences = np.split(arrays["tokens"], arrays["sentence_ends"][:-1])
            ends = [0, *arrays["document_ends"].tolist()]
            documents = [sentences[begin:end] for begin, end in pairwise(ends)]
            return cls(arrays["keys"].tolist(), documents, int(arrays["seed"]))

    def chooser(self, document: Document) -> NextSegment:
        """A function rng -> sentences of a random other document, from a random one of them on."""
        own = document_key(document, self.seed)
        others = [sentences for key, sentences in zip(self.keys, self.documents, strict=True) if key != own]
        if not others:
            raise InputError(
                "--sentence_objective=nsp needs at least two different documents to draw from. Received one; "
                "separate documents by blank lines, or use --sentence_objective=sop."
            )

        def next_segment(rng: np.random.Generator) -> list[np.ndarray]:
            sentences = others[rng.integers(len(others))]
            return sentences[rng.integers(len(sentences)) :]

        return next_segment


def partner_pool(
    documents: Iterable[Document], tokenizer: AlbertTokenizer, seed: int, size: int = POOL_DOCUMENTS
) -> PartnerPool:
    """Samples documents, each as likely as the next: those with the smallest hashes.

    The sample does not depend on the order of the documents, nor on how workers share them.

    Args:
      documents: the whole corpus; one pass.
      tokenizer: the vocabulary.
      seed: another one gives another sample.
      size: most documents in the sample.
    """
    heap: list[tuple[int, tuple[str, ...]]] = []
    seen: set[int] = set()
    for document in documents:
        key = document_key(document, seed)
        if key in seen or (len(heap) == size and -key < heap[0][0]):
            continue
        seen.add(key)
        heapq.heappush(heap, (-key, tuple(document.sentences[:POOL_SENTENCES])))
        if len(heap) > size:
            seen.discard(-heapq.heappop(heap)[0])
    keys, encoded = [], []
    for negative, sentences in sorted(heap, reverse=True):
        ids = [row for row in tokenizer.encode_batch(list(sentences)) if len(row)]
        if ids:
            keys.append(-negative)
            encoded.append(ids)
    return PartnerPool(keys, encoded, seed)


def document_key(document: Document, seed: int) -> int:
    """A number that tells a document from others, by its text."""
    key = hashlib.blake2b(f"partner {seed}\n".encode(), digest_size=8)
    key.update("\n".join(document.sentences).encode("utf-8", "surrogatepass"))
    return int.from_bytes(key.digest(), "little")
