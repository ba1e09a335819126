"""A model with a longer vocabulary: embeddings and output biases for the pieces that were appended to its own."""

import dataclasses

import numpy as np

from albert_tf.checkpoints.stored import StoredModel
from data_prep.tokenizers.vocabulary import Vocabulary
from data_prep.tokenizers.vocabulary_extension import replaced_pieces

_TABLES = ("embeddings/word_embeddings", "masked_lm/output_bias")  # with a row for each piece


def with_vocabulary(stored: StoredModel, vocabulary: Vocabulary) -> StoredModel:
    """A model with another vocabulary. With a longer one than its own it gets new rows.

    The row of a new piece is the mean of the rows of the pieces that it replaces. Rows that the model has beyond
    the pieces of its own vocabulary are used first.

    Raises:
      InputError: the vocabulary is longer than the model's own and does not begin with its pieces.
    """
    own, size = stored.vocabulary, vocabulary.count_pieces()
    stored = dataclasses.replace(stored, vocabulary=vocabulary)
    if own is None or size <= own.count_pieces():
        return stored
    parts = replaced_pieces(own, vocabulary)
    weights = dict(stored.weights)
    for name in _TABLES:
        if (table := weights.get(name)) is not None:
            new = [table[list(ids)].mean(axis=0) for ids in parts]
            weights[name] = np.concatenate([table[: own.count_pieces()], np.stack(new), table[size:]])
    config = dataclasses.replace(stored.config, vocab_size=max(stored.config.vocab_size, size))
    return dataclasses.replace(stored, weights=weights, config=config)
