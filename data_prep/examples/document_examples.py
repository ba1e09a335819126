"""Turns a document into examples, and examples into records.

Document --encode--> ids --pairs--> SegmentPair --masked_example--> MaskedExample --serialize--> record
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from data_prep.examples.masking import MaskedExample, MaskingVocabulary, masked_example, unmasked_example
from data_prep.examples.partners import NextSegment, PartnerPool
from data_prep.examples.segments import SegmentPair, next_sentence_pairs, segment_pairs, single_segments
from data_prep.examples.settings import PrepareSettings
from data_prep.text.documents import Document
from data_prep.tfrecord.schema import pretraining_features
from data_prep.tfrecord.serialization import serialize_examples
from data_prep.tokenizers.vocabulary import Tokenizer


def document_examples(
    document: Document,
    tokenizer: Tokenizer,
    settings: PrepareSettings,
    counts: Counter,
    partners: PartnerPool | None = None,
) -> Iterator[tuple[int, MaskedExample]]:
    """All examples of one document, one duplicate after the other.

    Args:
      document: its sentences.
      tokenizer: encodes them.
      settings: lengths, probabilities, seed.
      counts: the numbers of documents, sentences, tokens, examples, ... are added to it.
      partners: other documents, for `sentence_objective="nsp"`.

    Yields:
      (key, example): a random 64-bit key, which decides the example's shard and its place there.
    """
    sentences = [ids for ids in tokenizer.encode_batch(list(document.sentences)) if len(ids)]
    vocabulary = MaskingVocabulary.of(tokenizer)
    masking = settings.masking_settings
    next_segment = partners.chooser(document) if partners else None
    counts["documents"] += 1
    counts["sentences"] += len(sentences)
    counts["tokens"] += sum(map(len, sentences))
    for duplicate in range(settings.dupe_factor):
        rng = document_generator(document, settings.random_seed, duplicate)
        paired = 0
        for pair in _pairs(sentences, settings, rng, next_segment):
            if settings.masking == "dynamic":
                example = unmasked_example(pair, vocabulary)
            else:
                example = masked_example(pair, vocabulary, masking, rng)
            yield rng.bit_generator.random_raw(), example
            paired += pair.num_sentences
            counts["examples"] += 1
            counts["example_tokens"] += len(example.input_ids)
            counts["masked_tokens"] += len(example.masked_lm_positions)
            counts["swapped_examples"] += pair.swapped
        counts["dropped_sentences"] += len(sentences) - paired
        counts["duplicate_bytes"] += document.num_bytes


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


def document_generator(document: Document, seed: int, duplicate: int) -> np.random.Generator:
    """The generator of all draws for one duplicate of a document; depends on its text and the seed alone."""
    key = hashlib.blake2b(f"{seed} {duplicate}\n".encode(), digest_size=16)
    key.update("\n".join(document.sentences).encode("utf-8", "surrogatepass"))
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key.digest(), "little")))


def serialize(example: MaskedExample, max_seq_length: int, max_predictions_per_seq: int) -> bytes:
    """Serializes one example; see `serialize_batch`."""
    return serialize_batch([example], max_seq_length, max_predictions_per_seq)[0]


def serialize_batch(
    examples: Sequence[MaskedExample], max_seq_length: int, max_predictions_per_seq: int
) -> list[bytes]:
    """Pads and serializes examples as tf.train.Examples with the features of `schema.py`.

    Args:
      examples: each of n <= max_seq_length tokens, m <= max_predictions_per_seq predictions.
      max_seq_length: T.
      max_predictions_per_seq: P.

    Returns:
      The records; the same bytes for the same example.
    """
    columns = {
        "input_ids": [example.input_ids for example in examples],
        "input_mask": [np.ones(len(example.input_ids), bool) for example in examples],
        "segment_ids": [example.segment_ids for example in examples],
        "token_boundary": [example.token_boundary for example in examples],
        "masked_lm_positions": [example.masked_lm_positions for example in examples],
        "masked_lm_ids": [example.masked_lm_ids for example in examples],
        "masked_lm_weights": [np.ones(len(example.masked_lm_ids), np.float32) for example in examples],
        "next_sentence_labels": [np.array([example.swapped]) for example in examples],
    }
    return serialize_examples(pretraining_features(max_seq_length, max_predictions_per_seq), columns)
