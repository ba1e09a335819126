"""Turns a document into examples, and examples into records.

Document --encode--> ids --pairs--> SegmentPair --masked_example--> MaskedExample --serialize--> record
                         --sentence_chunks--> ChunkExample, cut and masked in training --serialize--> record
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from data_prep.examples.masking import (
    MaskedExample,
    MaskingSettings,
    MaskingVocabulary,
    masked_example,
    unmasked_example,
)
from data_prep.examples.partners import NextSegment, PartnerPool
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.examples.segments import (
    Chunk,
    SegmentPair,
    next_sentence_pairs,
    segment_pairs,
    sentence_chunks,
    single_segments,
)
from data_prep.text.documents import Document
from data_prep.text.layout import count_layout
from data_prep.text.mixture import count_corpus, whole_passes
from data_prep.tfrecord.schema import Feature
from data_prep.tfrecord.serialization import serialize_examples
from data_prep.tokenizers.vocabulary import Tokenizer

_NO_DUPLICATE = -1  # in the key of what is drawn before the duplicates


@dataclass(frozen=True)
class ChunkExample:
    """A chunk with the boundaries that masking needs.

    Attributes:
      chunk: the sentences.
      token_boundary: int32 [n], 1 where a word starts.
    """

    chunk: Chunk
    token_boundary: np.ndarray

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The values of `chunk_features`."""
        return {
            "input_ids": self.chunk.ids,
            "token_boundary": self.token_boundary,
            "sentence_starts": self.chunk.sentence_starts,
        }


class PlacedExample(NamedTuple):
    """An example, its place in the output, and its numbers for the manifest.

    Attributes:
      key: a random 64-bit number, which decides the example's shard and its place in it.
      example: the example.
      tokens: number of its tokens in training, including [CLS] and [SEP].
      masked: number of its masked tokens; 0 if training draws them.
      swapped: its label; False if training draws it.
    """

    key: int
    example: MaskedExample | ChunkExample
    tokens: int
    masked: int
    swapped: bool


def document_examples(
    document: Document,
    tokenizer: Tokenizer,
    vocabulary: MaskingVocabulary,
    settings: PrepareSettings,
    counts: Counter,
    duplicates: range,
    partners: PartnerPool | None = None,
) -> Iterator[PlacedExample]:
    """The examples of one document, one duplicate after the other.

    Adds the numbers of documents, sentences, tokens, examples, ... to `counts`; those of the text only with the
    first duplicates, which start at 0. Random second segments, for `sentence_objective="nsp"`, are drawn from
    `partners`.
    """
    sentences = [ids for ids in tokenizer.encode_batch(list(document.sentences)) if len(ids)]
    next_segment = partners.chooser(document) if partners else None
    if duplicates.start == 0:
        counts["documents"] += 1
        if settings.input_format == "lines":
            count_layout(document, counts)
        counts["sentences"] += len(sentences)
        counts["tokens"] += sum(map(len, sentences))
        count_corpus(counts, document.corpus, documents=1)
    for duplicate in duplicates:
        rng = document_generator(document, settings.random_seed, duplicate)
        if settings.stores_chunks:
            examples = _chunk_examples(sentences, settings, rng, vocabulary)
        else:
            examples = _pair_examples(
                _pairs(sentences, settings, rng, next_segment), settings, rng, vocabulary
            )
        used = 0
        for placed, num_sentences in examples:
            yield placed
            used += num_sentences
            counts["examples"] += 1
            counts["example_tokens"] += placed.tokens
            counts["masked_tokens"] += placed.masked
            counts["swapped_examples"] += placed.swapped
            count_corpus(counts, document.corpus, tokens=placed.tokens)
        counts["dropped_sentences"] += len(sentences) - used
        counts["duplicate_bytes"] += document.num_bytes


def _chunk_examples(
    sentences: list[np.ndarray],
    settings: PrepareSettings,
    rng: np.random.Generator,
    vocabulary: MaskingVocabulary,
) -> Iterator[tuple[PlacedExample, int]]:
    """Yields each example and the number of its sentences."""
    max_tokens = settings.max_seq_length - 3
    for chunk in sentence_chunks(sentences, max_tokens, settings.short_seq_prob, rng):
        example = ChunkExample(chunk, vocabulary.starts_word[chunk.ids].astype(np.int32))
        tokens = min(len(chunk.ids), max_tokens) + 3
        yield PlacedExample(rng.bit_generator.random_raw(), example, tokens, 0, False), chunk.num_sentences


def _pair_examples(
    pairs: Iterator[SegmentPair],
    settings: PrepareSettings,
    rng: np.random.Generator,
    vocabulary: MaskingVocabulary,
) -> Iterator[tuple[PlacedExample, int]]:
    """Yields each example and the number of its sentences."""
    masking = MaskingSettings.of(settings)
    for pair in pairs:
        if settings.masking == "dynamic":
            example = unmasked_example(pair, vocabulary)
        else:
            example = masked_example(pair, vocabulary, masking, rng)
        tokens, masked = len(example.input_ids), len(example.masked_lm_positions)
        key = rng.bit_generator.random_raw()
        yield PlacedExample(key, example, tokens, masked, pair.swapped), pair.num_sentences


def _pairs(
    sentences: list[np.ndarray],
    settings: PrepareSettings,
    rng: np.random.Generator,
    next_segment: NextSegment | None,
) -> Iterator[SegmentPair]:
    T, short = settings.max_seq_length, settings.short_seq_prob
    if settings.sentence_objective == "none":
        return single_segments(sentences, T - 2, short, rng)
    if settings.sentence_objective == "nsp":
        assert next_segment is not None
        return next_sentence_pairs(sentences, T - 3, short, rng, next_segment)
    return segment_pairs(sentences, T - 3, short, rng)


def number_of_duplicates(document: Document, passes: float, seed: int) -> int:
    """How many passes there are over a document, if there are `passes` over its corpus in the mean."""
    return whole_passes(passes, lambda: document_generator(document, seed, _NO_DUPLICATE).random())


def document_generator(document: Document, seed: int, duplicate: int) -> np.random.Generator:
    """The generator of all draws for one duplicate of a document; depends on its text and the seed alone."""
    key = hashlib.blake2b(f"{seed} {duplicate}\n".encode(), digest_size=16)
    key.update("\n".join(document.sentences).encode("utf-8", "surrogatepass"))
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key.digest(), "little")))


def serialize_batch(
    examples: Sequence[MaskedExample | ChunkExample], features: Mapping[str, Feature]
) -> list[bytes]:
    """Serializes examples of one kind as tf.train.Examples; the same bytes for the same example."""
    rows = [example.columns for example in examples]
    return serialize_examples(features, {name: [row[name] for row in rows] for name in features})
