"""The models in albert_tf/models, if there are any: complete, and small enough for the package."""

import pytest

from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.sources import named_models

SHIPPED = [model for model in named_models() if model.place == "in the package"]


@pytest.mark.parametrize("model", SHIPPED, ids=lambda model: model.name)
def test_complete_and_small(model):
    stored = open_model(model.name)
    assert stored.missing == ()
    assert stored.vocabulary is not None
    assert stored.vocabulary.count_pieces() == stored.config.vocab_size
    assert (model.source / "README.md").read_text(encoding="utf-8").count("\n# ") == 1
    assert model.size <= 8_000_000
