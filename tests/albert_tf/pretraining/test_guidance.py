import re
from collections import Counter

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.flags import PretrainingPlan
from albert_tf.pretraining.guidance import learning_rate_line, warnings
from data_prep.examples.manifest import ExampleCounts, Manifest, VocabularyFacts
from data_prep.examples.settings import PrepareSettings
from tests.albert_tf.pretraining.resolved import resolved


def changed(max_seq_length: int = 512, max_predictions_per_seq: int = 77, **flags) -> PretrainingPlan:
    return resolved((max_seq_length, max_predictions_per_seq), **flags)


SETTINGS = changed()


def manifest_of(documents: int = 1, **flags) -> Manifest:
    counts = ExampleCounts.of(Counter(documents=documents))
    vocabulary = VocabularyFacts("", "", 30_000, 2, 3, 4, [])
    return Manifest(counts, PrepareSettings("", "", **flags), vocabulary, [], [], {})


@pytest.mark.parametrize(
    ("flags", "rate"),
    [
        ({}, 0.00176),
        ({"train_batch_size": 1024}, 0.00088),
        ({"train_batch_size": 64}, 0.00022),
        ({"optimizer": "adamw", "train_batch_size": 256}, 0.0001),
        ({"optimizer": "adamw", "train_batch_size": 1024}, 0.0002),
        ({"learning_rate": 0.5, "train_batch_size": 64}, 0.5),
    ],
)
def test_learning_rate(flags, rate):
    assert changed(**flags).learning_rate == pytest.approx(rate)


@pytest.mark.parametrize(("given", "steps", "warmup"), [(None, 125_000, 3125), (None, 50, 5), (0, 50, 0)])
def test_the_warmup_is_at_most_a_tenth_of_the_run_unless_given(given, steps, warmup):
    assert changed(num_train_steps=steps, num_warmup_steps=given).num_warmup_steps == warmup


def test_the_line_explains_the_default_rate():
    assert learning_rate_line(changed(train_batch_size=64)) == (
        "learning rate 0.00022 = the paper's 0.00176 for batches of 4096, times sqrt(64 / 4096); "
        "--learning_rate sets another"
    )


def test_no_warnings_for_the_papers_run():
    """125,000 steps of 4096 examples from 16 GB of text with --dupe_factor=10."""
    assert warnings(SETTINGS, [(90_000_000, None)]) == []


def test_few_predictions():
    (line,) = warnings(changed(max_predictions_per_seq=20), [(90_000_000, None)])
    assert "20 predictions are at most 3.9% of 512 tokens, but 15% should be masked" in line
    assert "26% of the predictions fit" in line
    assert line.endswith("--max_predictions_per_seq=77")
    # No warning for the original's T=128 and P=20, or if the data was to have fewer masks.
    assert not warnings(changed(max_seq_length=128, max_predictions_per_seq=20), [(90_000_000, None)])
    manifest = manifest_of(masked_lm_prob=0.04, dupe_factor=1)
    assert not warnings(changed(max_predictions_per_seq=20), [(90_000_000, manifest)])


def test_few_documents():
    manifest = manifest_of(documents=3, dupe_factor=40)
    flags = {"train_batch_size": 100, "num_train_steps": 1000, "num_warmup_steps": 10}
    (line,) = warnings(changed(**flags), [(2000, manifest)])
    assert "this run reads the 2,000 examples 50 times" in line
    assert "each of 3 documents 2,000 times" in line
    assert not warnings(changed(**flags), [(2000, None)])  # 50 times are not many
    (line,) = warnings(changed(**flags), [(200, None)])
    assert "this run reads the 200 examples 500 times; the paper's run" in line


def test_long_warmup():
    (line,) = warnings(changed(num_train_steps=100, num_warmup_steps=100), [(90_000_000, None)])
    assert "the warm-up of 100 steps is not shorter than the training of 100" in line


SMALL = AlbertConfig(hidden_size=128, num_attention_heads=4, num_hidden_layers=3, intermediate_size=512)
LARGER = AlbertConfig(hidden_size=256, num_attention_heads=4, num_hidden_layers=6, intermediate_size=1024)


@pytest.mark.parametrize(
    ("config", "flags", "message"),
    [
        (SMALL, {"num_warmup_steps": 100}, "warm-up of 100 steps.*--num_warmup_steps=400 or more"),
        (SMALL, {"num_warmup_steps": 200}, None),
        (LARGER, {"num_warmup_steps": 400}, "warm-up of 400 steps.*--num_warmup_steps=1000 or more"),
        (LARGER, {"num_warmup_steps": 500}, None),
        (LARGER, {"num_train_steps": 1000}, "--num_warmup_steps=500, half of the run, or a longer run"),
        (LARGER, {"num_warmup_steps": 500, "num_train_steps": 1000}, None),
        (SMALL, {"num_train_steps": 1000}, "--num_warmup_steps=400 or more"),
        (LARGER, {"num_warmup_steps": 100, "optimizer": "lamb"}, None),
        (LARGER, {"num_warmup_steps": 100, "num_train_steps": 999}, None),
        (None, {"num_warmup_steps": 100}, None),
    ],
)
def test_a_short_warmup_stays_on_the_plateau(config, flags, message):
    flags = {"optimizer": "adamw", "train_batch_size": 64, "num_train_steps": 4000, **flags}
    lines = warnings(changed(32, 5, **flags), [(90_000_000, None)], config)
    assert len(lines) == (message is not None)
    assert all(re.search(message, line) for line in lines)


@pytest.mark.parametrize(
    ("optimizer", "rate", "warns"), [("adamw", 0.003, 1), ("adamw", 0.002, 0), ("lamb", 0.01, 0)]
)
def test_a_high_rate_stays_on_the_plateau(optimizer, rate, warns):
    flags = {"optimizer": optimizer, "learning_rate": rate, "num_warmup_steps": 400, "num_train_steps": 4000}
    lines = warnings(changed(32, 5, train_batch_size=64, **flags), [(90_000_000, None)], SMALL)
    assert len(lines) == warns
    assert all("with AdamW and a learning rate of 0.003" in line for line in lines)


@pytest.mark.parametrize(("T", "steps", "warns"), [(128, 3000, True), (128, 5000, False), (64, 3000, False)])
def test_long_sequences_from_the_start(T, steps, warns):
    flags = {"optimizer": "adamw", "train_batch_size": 16, "num_train_steps": steps, "num_warmup_steps": 500}
    lines = warnings(changed(T, 20, **flags), [(90_000_000, None)], SMALL)
    assert len(lines) == warns
    assert all("6,144,000 tokens in sequences of 128" in line for line in lines)
