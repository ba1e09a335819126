"""Copies of a checkpoint's encoder, and the learning rates of its parts."""

import dataclasses

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.construction import build_task_model, copy_weights, rate_factors
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.optimizers import AdamW
from albert_tf.tasks.texts.model import TextClassifier
from tests.albert_tf.finetuning.plans import plan_of
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


@pytest.mark.slow
@pytest.mark.parametrize(("length", "rows"), [(6, 8), (12, 12)])
def test_a_task_model_is_built_on_a_copy_of_the_encoder(length, rows):
    """Its rates of dropout are the plan's; shorter sequences leave the position table as it is."""
    config = dataclasses.replace(CONFIG, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.25)
    encoder = AlbertEncoder(config, seed=1)
    plan = plan_of(
        "squad2.0", config, dropout=0.125, classifier_dropout=0.375, max_seq_length=length,
        resize_positions=True, start_n_top=4, end_n_top=3,
    )  # fmt: skip
    model = build_task_model(plan, encoder)
    built = model.encoder.config
    assert (built.hidden_dropout_prob, built.attention_probs_dropout_prob) == (0.125, 0.125)
    assert (built.max_position_embeddings, model.span.dropout_rate) == (rows, 0.375)
    assert (model.span.beam, model.span.end_beam) == (4, 3)
    for ours, theirs in zip(model.encoder.get_weights(), encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(ours[: len(theirs)], theirs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"embeddings": 0.25, "attention_0_0": 0.5, "ffn_0_0": 0.5}),
        (
            {"num_hidden_groups": 2, "inner_group_num": 2},
            {"embeddings": 0.125}
            | {f"{part}_0_{i}": 0.25 for part in ("attention", "ffn") for i in range(2)}
            | {f"{part}_1_{i}": 0.5 for part in ("attention", "ffn") for i in range(2)},
        ),
        (
            {"parameter_sharing": "attention"},
            {"embeddings": 0.125, "attention_0_0": 0.5, "ffn_0_0": 0.25, "ffn_1_0": 0.5},
        ),
    ],
)
def test_layer_decay(changes, expected):
    """One step for all layers that share a part; head and pooler keep the whole rate."""
    encoder = AlbertEncoder(dataclasses.replace(CONFIG, **changes), seed=1)
    model = TextClassifier(encoder, ("a", "b"), seed=2)
    optimizer = AdamW(0.1, rate_factors=rate_factors(encoder.config, 0.5), weight_decay_rate=0.0)
    before = model.trainable_variables
    values = [np.asarray(variable) for variable in before]
    optimizer.apply([np.ones(variable.shape, "float32") for variable in before], before)
    unit = 0.1 * 0.1 / (np.sqrt(0.001) + 1e-6)
    for variable, value in zip(before, values, strict=True):
        factor = next((f for part, f in expected.items() if f"/{part}/" in variable.path), 1.0)
        np.testing.assert_allclose(
            value - np.asarray(variable), factor * unit, rtol=1e-3, err_msg=variable.path
        )
