"""Outputs of a data set, in the order of its examples."""

import numpy as np
import pytest

from albert_tf.model.encoder import AlbertEncoder
from albert_tf.optimizers import AdamW
from albert_tf.tasks.inference import Inference
from albert_tf.tasks.splits import by_row, mean_loss
from albert_tf.tasks.task_batches import BatchOrder, bucketed_batches
from albert_tf.tasks.texts.model import TextClassifier
from tests.albert_tf.tasks.task_models import CASES

pytestmark = pytest.mark.slow


@pytest.fixture
def model(tiny_config) -> TextClassifier:
    return TextClassifier(AlbertEncoder(tiny_config, seed=1), ["a", "b", "c"], seed=2)


def features(number: int, *, labels: bool) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    examples = []
    for _ in range(number):
        ids = rng.integers(5, 50, rng.integers(3, 17)).astype(np.int32)
        example = {"input_ids": ids, "token_type_ids": np.zeros_like(ids)}
        examples.append({**example, "label": np.int32(rng.integers(3))} if labels else example)
    return examples


@pytest.mark.parametrize("filled", [pytest.param(False, marks=pytest.mark.very_slow), True])
def test_rows_are_in_order_with_their_loss(model, filled):
    examples = features(11, labels=True)
    rows = by_row(
        Inference(model)(
            bucketed_batches(examples, 4, BatchOrder(None, by_length=True), fill_remainder=filled)
        ),
        11,
    )
    losses = []
    for example, row in zip(examples, rows, strict=True):
        alone = {name: np.asarray(value)[np.newaxis] for name, value in example.items()}
        expected = np.asarray(model(alone))[0]
        np.testing.assert_allclose(row["output"], expected, atol=1e-5)
        losses.append(np.log(np.exp(expected).sum()) - expected[example["label"]])
    assert mean_loss(rows) == pytest.approx(np.mean(losses), abs=1e-5)


def test_the_loss_of_words_is_that_of_their_first_pieces():
    model, rng = CASES["words"].build(None, dropout=0.0), np.random.default_rng(0)
    examples, losses, weights = [], [], []
    for words, tokens in ((1, 4), (3, 6), (2, 9)):
        ids = rng.integers(5, 90, tokens).astype(np.int32)
        kept = np.isin(np.arange(tokens), rng.choice(np.arange(1, tokens - 1), words, replace=False))
        label = np.where(kept, rng.integers(0, 2, tokens), 0).astype(np.int32)
        arrays = {"input_ids": ids, "token_type_ids": np.zeros_like(ids), "label": label}
        examples.append({**arrays, "label_weights": kept.astype(np.float32)})
        logits = np.asarray(model({name: value[np.newaxis] for name, value in arrays.items()}))[0]
        of_tokens = np.log(np.exp(logits).sum(axis=-1)) - logits[np.arange(tokens), label]
        losses.append(of_tokens[kept].sum())
        weights.append(words)
    rows = by_row(Inference(model)(bucketed_batches(examples, 2, BatchOrder(None), fill_remainder=True)), 3)
    assert [row["loss"] for row in rows] == pytest.approx(losses, abs=1e-5)
    assert [row["loss_weight"] for row in rows] == weights
    assert mean_loss(rows) == pytest.approx(sum(losses) / 6, abs=1e-5)


def test_without_labels_there_is_no_loss(model):
    rows = by_row(Inference(model)(bucketed_batches(features(3, labels=False), 2, BatchOrder(None))), 3)
    assert all(set(row) == {"output"} for row in rows)


def test_one_graph_for_batches_of_all_sizes(model):
    """The outputs equal those for a data set."""
    inference, examples = Inference(model), features(5, labels=False)
    expected = by_row(inference(bucketed_batches(examples, 2, BatchOrder(None))), 5)
    for example, row in zip(examples, expected, strict=True):
        batch = {name: value[np.newaxis] for name, value in example.items()}
        found = inference.of_batch({**batch, "index": np.zeros(1, np.int32)})
        np.testing.assert_allclose(found["output"][0], row["output"], atol=1e-5)
        labelled = {**batch, "index": np.zeros(1, np.int32), "label": np.zeros(1, np.int32)}
        assert {"output", "loss"} <= inference.of_batch(labelled).keys()


@pytest.mark.very_slow
def test_training_does_not_depend_on_padding(tiny_config):
    histories = []
    for pad_to in (None, tiny_config.max_position_embeddings):
        model = TextClassifier(
            AlbertEncoder(tiny_config, seed=1), ["a", "b", "c"], classifier_dropout=0.0, seed=2
        )
        model.compile(AdamW(0.01, global_clipnorm=1.0), jit_compile=False)
        order = BatchOrder(1, num_epochs=None, by_length=True)
        batches = bucketed_batches(features(37, labels=True), 8, order, pad_to=pad_to)
        history = model.fit(batches, epochs=2, steps_per_epoch=5, shuffle=False, verbose=0).history
        histories.append(history["loss"])
    assert histories[0][0] != histories[0][1]
    np.testing.assert_allclose(histories[0], histories[1], atol=1e-5)
