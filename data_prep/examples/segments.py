"""Cuts documents into pairs of segments, in order or swapped (paper, section 3.1, sentence-order prediction).

sentences --sentence_chunks--> Chunk --sentence_order_pair--> SegmentPair(a, b, swapped)

With `--masking=dynamic` the second step is left to the reader, which repeats it in every epoch.

Throughout, `document` holds the ids of each sentence, int32 [at least 1]; `max_tokens` is the number of tokens
that an example has room for, and the usual target of its length; `short_seq_prob` is the share of examples with a
random target in [2, max_tokens] instead; `rng` is the source of every draw.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SegmentPair:
    """Two consecutive pieces of a document.

    Attributes:
      a: ids of the first segment, int32 [at least 1].
      b: ids of the second segment, int32 [at least 1]; empty for a single segment.
      swapped: the label: True if `b` precedes `a` in the document (sop), or comes from another document (nsp).
      num_sentences: number of the document's sentences in the pair, before truncation.
    """

    a: np.ndarray
    b: np.ndarray
    swapped: bool
    num_sentences: int


@dataclass(frozen=True)
class Chunk:
    """Consecutive sentences of a document, two or more, before they are cut into a pair.

    Attributes:
      ids: of all tokens, int32 [n].
      sentence_starts: where each sentence but the first starts, int64 [num_sentences - 1].
    """

    ids: np.ndarray
    sentence_starts: np.ndarray

    @property
    def num_sentences(self) -> int:
        """The number of sentences."""
        return len(self.sentence_starts) + 1


def segment_pairs(
    document: list[np.ndarray], max_tokens: int, short_seq_prob: float, rng: np.random.Generator
) -> Iterator[SegmentPair]:
    """Cuts a document into pairs with len(a) + len(b) <= max_tokens, from its first sentence to its last.

    >>> [(pair.a, pair.b, pair.swapped) for pair in segment_pairs([[7, 8], [9]], 125, 0.1, rng)]
    [(array([9]), array([7, 8]), True)]
    """
    for chunk in sentence_chunks(document, max_tokens, short_seq_prob, rng):
        yield sentence_order_pair(chunk, max_tokens, rng)


def sentence_chunks(
    document: list[np.ndarray], max_tokens: int, short_seq_prob: float, rng: np.random.Generator
) -> Iterator[Chunk]:
    """Groups the sentences of a document into chunks of two sentences or more.

    A single sentence left over at the end gives no chunk. (The original pairs it with a random document and labels
    that "swapped".)

    >>> next(sentence_chunks([[7, 8], [9]], 125, 0.1, rng))
    Chunk(ids=array([7, 8, 9]), sentence_starts=array([2]))
    """
    tokens, offsets = _flat(document)
    for begin, end in chunks(offsets, max_tokens, short_seq_prob, rng):
        if end - begin >= 2:
            first = offsets[begin]
            yield Chunk(tokens[first : offsets[end]], offsets[begin + 1 : end] - first)


def single_segments(
    document: list[np.ndarray], max_tokens: int, short_seq_prob: float, rng: np.random.Generator
) -> Iterator[SegmentPair]:
    """Cuts a document into single segments, as pairs with an empty b (`--sentence_objective=none`)."""
    tokens, offsets = _flat(document)
    for begin, end in chunks(offsets, max_tokens, short_seq_prob, rng):
        a = tokens[offsets[begin] : offsets[end]]
        a = _shorten(a, max(0, len(a) - max_tokens), rng)
        yield SegmentPair(a, tokens[:0], False, end - begin)


def next_sentence_pairs(
    document: list[np.ndarray],
    max_tokens: int,
    short_seq_prob: float,
    rng: np.random.Generator,
    next_segment: Callable[[np.random.Generator], list[np.ndarray]],
) -> Iterator[SegmentPair]:
    """BERT's next-sentence prediction: `b` follows `a`, or with p = .5 comes from another document.

    After a random `b`, the sentences that follow `a` start the next chunk. A single sentence left over gives no
    pair, which keeps the labels balanced. (BERT makes random pairs of all those.) `next_segment(rng)` returns
    sentences of another document, from a random sentence on.
    """
    tokens, offsets = _flat(document)
    begin, last = 0, len(document)
    while last - begin >= 2:
        target = _target(max_tokens, short_seq_prob, rng)
        end = _chunk_end(offsets, begin, target)
        cut = begin + int(rng.integers(1, end - begin))
        a, b = tokens[offsets[begin] : offsets[cut]], tokens[offsets[cut] : offsets[end]]
        random = bool(rng.random() < 0.5)
        if random:
            b, end = _stretch(next_segment(rng), target - len(a)), cut
        pair = truncate_pair(a, b, max_tokens, rng)
        yield SegmentPair(*pair, random, end - begin)
        begin = end


def _flat(document: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """All tokens, and where each sentence starts and the last one ends among them, int64 [sentences + 1]."""
    offsets = np.concatenate([[0], np.cumsum([len(sentence) for sentence in document], dtype=np.int64)])
    return np.concatenate(document) if document else np.zeros(0, np.int32), offsets


def _stretch(sentences: list[np.ndarray], target: int) -> np.ndarray:
    """The first sentences whose tokens reach the target; at least one."""
    ends = np.cumsum([len(sentence) for sentence in sentences])
    return np.concatenate(sentences[: int(np.searchsorted(ends, target)) + 1])


def chunks(
    offsets: np.ndarray, max_tokens: int, short_seq_prob: float, rng: np.random.Generator
) -> Iterator[tuple[int, int]]:
    """Groups sentences until there are two of them and their tokens reach the target length.

    `offsets` is from `_flat`. Yields the (begin, end) of sentences; only the last chunk may hold a single one.

    >>> list(chunks(np.array([0, 4, 6, 9, 12, 13]), 6, 0.0, rng))
    [(0, 2), (2, 4), (4, 5)]
    """
    last = len(offsets) - 1
    begin = 0
    while begin < last:
        end = _chunk_end(offsets, begin, _target(max_tokens, short_seq_prob, rng))
        yield begin, end
        begin = end


def _target(max_tokens: int, short_seq_prob: float, rng: np.random.Generator) -> int:
    if rng.random() < short_seq_prob:
        return int(rng.integers(2, max_tokens + 1))
    return max_tokens


def _chunk_end(offsets: np.ndarray, begin: int, target: int) -> int:
    reached = int(np.searchsorted(offsets, offsets[begin] + target))
    return min(max(reached, begin + 2), len(offsets) - 1)


def sentence_order_pair(chunk: Chunk, max_tokens: int, rng: np.random.Generator) -> SegmentPair:
    """Cuts a chunk at a random sentence boundary, and swaps the two segments with p = .5."""
    cut = chunk.sentence_starts[rng.integers(len(chunk.sentence_starts))]
    a, b = chunk.ids[:cut], chunk.ids[cut:]
    swapped = bool(rng.random() < 0.5)
    if swapped:
        a, b = b, a
    a, b = truncate_pair(a, b, max_tokens, rng)
    return SegmentPair(a, b, swapped, chunk.num_sentences)


def truncate_pair(
    a: np.ndarray, b: np.ndarray, max_tokens: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Shortens the longer segment, then both alternately, until the pair fits.

    The original removes one token at a time from the longer segment (`b` if they are equal), at its front or
    back with p = .5. So the number that each segment loses is fixed, and the number at its front is binomial.

    >>> truncate_pair(np.arange(6), np.arange(10, 13), 5, rng)  # a loses 3, then b 1
    (array([2, 3, 4]), array([10, 11]))
    """
    excess = len(a) + len(b) - max_tokens
    if excess <= 0:
        return a, b
    difference = len(a) - len(b)
    alone = min(excess, abs(difference))  # removed from the longer one until they are equal
    in_turn = excess - alone
    from_a = in_turn // 2 + (alone if difference > 0 else 0)
    return _shorten(a, from_a, rng), _shorten(b, excess - from_a, rng)


def _shorten(ids: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    front = int(rng.binomial(count, 0.5))
    return ids[front : len(ids) - (count - front)]
