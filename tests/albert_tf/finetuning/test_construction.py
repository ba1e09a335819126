"""Copies of a checkpoint's encoder."""

import dataclasses

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.construction import copy_weights
from albert_tf.model.encoder import AlbertEncoder
from tests.reference.positions import tiled_rows

CONFIG = AlbertConfig(
    vocab_size=20, embedding_size=4, hidden_size=8, num_attention_heads=2, intermediate_size=16,
    num_hidden_layers=2, max_position_embeddings=8,
)  # fmt: skip


@pytest.mark.parametrize("method", [True, "tile", "fresh"])
def test_longer_sequences_keep_every_row_that_was_trained(method):
    trained = AlbertEncoder(CONFIG, seed=1)
    longer = AlbertEncoder(dataclasses.replace(CONFIG, max_position_embeddings=12), seed=2)
    fresh = longer.embeddings.position_embeddings.numpy()
    copy_weights(trained, longer, method)
    rows = longer.embeddings.position_embeddings.numpy()
    learned = trained.embeddings.position_embeddings.numpy()
    np.testing.assert_array_equal(rows[:8], learned)
    np.testing.assert_array_equal(rows[8:], fresh[8:] if method == "fresh" else tiled_rows(learned, 12)[8:])
    ids = {"input_ids": np.arange(16).reshape(2, 8) % 20}
    np.testing.assert_allclose(
        longer(ids)["sequence_output"], trained(ids)["sequence_output"], rtol=1e-6, atol=1e-6
    )
