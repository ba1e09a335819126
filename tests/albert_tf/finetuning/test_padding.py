"""Batches of similar lengths compute what batches of one length compute."""

import numpy as np

from albert_tf.finetuning.replicas import ClippedAdamW
from data_prep.reading.task_batches import bucketed_batches
from tests.albert_tf.finetuning.task_models import CASES, CONFIG

LONGEST = CONFIG.max_position_embeddings


def examples(count=37):
    rng = np.random.default_rng(4)
    return [
        {
            "input_ids": rng.integers(5, CONFIG.vocab_size, length).astype(np.int32),
            "token_type_ids": rng.integers(0, 2, length).astype(np.int32),
            "label": np.int32(rng.integers(2)),
        }
        for length in rng.integers(3, LONGEST // 2, count)
    ]


def losses_by_example(model, batches) -> np.ndarray:
    losses: dict[int, float] = {}
    for batch in batches.as_numpy_iterator():
        values = model.task_losses(batch["label"], model(batch))
        losses |= dict(zip(batch["index"].tolist(), np.asarray(values).tolist(), strict=True))
    return np.array([losses[row] for row in range(len(losses))])


def test_the_loss_of_every_example():
    features, model = examples(), CASES["text"].build(None)
    for weight in model.trainable_variables:  # as after training: the scores of words differ
        weight.assign(weight + np.random.default_rng(0).normal(0, 0.2, weight.shape))
    bucketed = losses_by_example(model, bucketed_batches(features, 8, seed=1))
    padded = losses_by_example(model, bucketed_batches(features, 8, seed=None, pad_to=LONGEST))
    assert bucketed.shape == (len(features),)
    assert bucketed.std() > 0.1
    np.testing.assert_allclose(bucketed, padded, atol=1e-5)


def test_the_losses_of_training():
    histories = []
    for pad_to in (None, LONGEST):
        model = CASES["text"].build(None, dropout=0.0)
        model.compile(ClippedAdamW(0.01), jit_compile=False)
        batches = bucketed_batches(examples(), 8, seed=1, num_epochs=None, by_length=True, pad_to=pad_to)
        history = model.fit(batches, epochs=2, steps_per_epoch=5, shuffle=False, verbose=0).history
        histories.append(history["loss"])
    assert histories[0][0] != histories[0][1]
    np.testing.assert_allclose(histories[0], histories[1], atol=1e-5)
