"""What the flags leave open, and what a run says before its first step."""

from collections import Counter
from dataclasses import replace

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.flops import training_flops
from data_prep.errors import InputError
from data_prep.examples.manifest import ExampleCounts, Manifest, VocabularyFacts
from data_prep.examples.prepare_flags import PrepareSettings
from tests.albert_tf.pretraining.plans import plan_of

GIVEN = {"learning_rate": 0.001}  # otherwise a note explains the default
TWO = ("input_file=a num_train_steps=30 train_batch_size=64", "input_file=b num_train_steps=10")


def notes(max_seq_length: int = 512, max_predictions_per_seq: int = 77, **flags) -> tuple[str, ...]:
    return plan_of((max_seq_length, max_predictions_per_seq), **{**GIVEN, **flags}).notes


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
    assert plan_of((512, 77), **flags).learning_rate == pytest.approx(rate)


@pytest.mark.parametrize(("given", "steps", "warmup"), [(None, 125_000, 3125), (None, 50, 5), (0, 50, 0)])
def test_the_warmup_is_at_most_a_tenth_of_the_run_unless_given(given, steps, warmup):
    plan = plan_of((512, 77), num_train_steps=steps, num_warmup_steps=given)
    assert plan.num_warmup_steps == warmup


def test_one_schedule_over_all_phases():
    plan = plan_of((32, 5), (128, 20), phase=TWO, train_batch_size=16)
    assert [(phase.start_step, phase.end_step) for phase in plan.phases] == [(0, 30), (30, 40)]
    assert plan.num_train_steps == 40
    assert (plan.max_seq_length, plan.max_predictions_per_seq) == (128, 20)
    assert plan.learning_rate == pytest.approx(0.00022), "that of batches of 64"
    assert "sqrt(64 / 4096)" in plan.notes[1]


def test_a_note_explains_the_default_rate():
    assert notes(train_batch_size=64, learning_rate=None) == (
        "learning rate 0.00022 = the paper's 0.00176 for batches of 4096, times sqrt(64 / 4096); "
        "--learning_rate sets another",
    )


def test_the_cost_of_phases():
    config = AlbertConfig.from_preset("albert_base_v2")
    short, long = 64 * training_flops(config, 32, 5), 16 * training_flops(config, 128, 20)
    share = (30 * short + 10 * long) / (40 * long)
    assert plan_of((32, 5), (128, 20), config=config, phase=TWO, train_batch_size=16, **GIVEN).notes == (
        f"2 phases, 30 steps of 64 at T=32, then 10 steps of 16 at T=128: {share:.0%} of the FLOPs of 40 steps of "
        "16 at T=128",
    )


def test_the_papers_run_needs_no_notes():
    assert notes() == ()


def test_few_predictions():
    (note,) = notes(max_predictions_per_seq=20)
    assert "20 predictions are at most 3.9% of 512 tokens, but 15% should be masked" in note
    assert "26% of the predictions fit" in note
    assert note.endswith("--max_predictions_per_seq=77")
    # No warning for the original's T=128 and P=20, or if the data was to have fewer masks.
    assert not notes(max_seq_length=128, max_predictions_per_seq=20)
    vocabulary = VocabularyFacts("", "", 30_000, 2, 3, 4, [])
    settings = replace(PrepareSettings("", ""), masked_lm_prob=0.04)
    few = Manifest(ExampleCounts.of(Counter(documents=1)), settings, vocabulary, [], [], {})
    assert not any("predictions" in note for note in notes(max_predictions_per_seq=20, manifest=few))


def test_long_warmup():
    (note,) = notes(num_train_steps=100, num_warmup_steps=100)
    assert "the warm-up of 100 steps is not shorter than the training of 100" in note


def test_early_stopping_needs_evaluations_of_the_last_phase():
    with pytest.raises(InputError, match="needs evaluations of the last phase"):
        plan_of(
            (32, 5),
            (128, 20),
            phase=(f"{TWO[0]} eval_file=c", TWO[1]),
            do_eval=True,
            early_stopping_patience=2,
        )
