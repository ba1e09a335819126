import pytest

from albert_tf.lab.scales import PAPER, SCALES, TINY
from albert_tf.lab.settings import LabSettings
from data_prep.errors import InputError


def test_what_is_not_said_is_the_scales():
    settings = LabSettings("lab", scale="paper").resolved(PAPER)
    assert (settings.train_batch_size, settings.num_train_steps, settings.num_warmup_steps) == (
        4096,
        125000,
        3125,
    )
    assert (settings.learning_rate, settings.max_seq_length, settings.vocab_size) == (0.00176, 512, 30000)
    assert settings.resolved(PAPER) == settings


def test_what_is_said_wins_and_the_warm_up_follows():
    settings = LabSettings("lab", num_train_steps=40, vocab_size=100).resolved(TINY)
    assert (settings.num_train_steps, settings.num_warmup_steps, settings.vocab_size) == (40, 2, 100)
    assert LabSettings("lab", num_warmup_steps=0).resolved(TINY).num_warmup_steps == 0


def test_the_command_can_be_typed_again():
    settings = LabSettings("my lab", "books/*.txt", seeds=5)
    assert (
        settings.command("table5")
        == "albert lab table5 '--output=my lab' '--input_file=books/*.txt' --seeds=5"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"seeds": -1}, "--seeds must not be negative. Received -1."),
        ({"max_seq_length": -1}, "--max_seq_length must be at least 1"),
        ({"strategy": "multi_worker"}, "one machine or TPU"),
    ],
)
def test_wrong_flags_are_told(flags, message):
    with pytest.raises(InputError, match=message):
        LabSettings("lab", **flags)


def test_the_papers_scale_takes_the_papers_recipes():
    assert PAPER.finetuning is None
    assert all(SCALES[name].finetuning for name in ("tiny", "small"))
