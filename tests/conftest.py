"""What all tests share."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow is imported anywhere

import hypothesis
import pytest

from albert_tf.config import AlbertConfig

# A busy machine is no defect.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


@pytest.fixture
def tiny_config() -> AlbertConfig:
    """A model that builds and runs in milliseconds, every dimension different."""
    return AlbertConfig(
        vocab_size=50,
        embedding_size=10,
        hidden_size=24,
        num_hidden_layers=4,
        num_attention_heads=3,
        intermediate_size=36,
        max_position_embeddings=16,
    )
