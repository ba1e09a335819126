"""The flags of an experiment, and the settings that a laboratory fixes."""

import dataclasses
import json

import pytest

from albert_tf.lab.laboratory import Laboratory
from albert_tf.lab.scales import PAPER, SCALES, TINY
from albert_tf.lab.settings import LabSettings, ResolvedLabSettings
from albert_tf.lab.subprocesses import ProgramRunner
from data_prep.errors import InputError


@pytest.fixture
def settings(tmp_path) -> ResolvedLabSettings:
    return LabSettings(str(tmp_path / "lab"), "books/*.txt").resolved(TINY)


def open_laboratory(settings: ResolvedLabSettings, text: str) -> None:
    Laboratory(settings, TINY, ProgramRunner()).open(text)


def begin(settings: ResolvedLabSettings) -> None:
    open_laboratory(settings, "abc")
    (settings.folder / "runs" / "base").mkdir(parents=True)


def test_a_laboratory_with_runs_keeps_its_settings(settings):
    begin(settings)
    open_laboratory(dataclasses.replace(settings, seeds=5, glue_dir="glue"), "abc")
    with pytest.raises(InputError, match="they have --num_train_steps=6000. Received 7; use the same"):
        open_laboratory(dataclasses.replace(settings, num_train_steps=7), "abc")
    assert (
        json.loads((settings.folder / "laboratory.json").read_text())["num_train_steps"]
        == TINY.num_train_steps
    )


@pytest.mark.parametrize(
    ("kept", "received", "message"),
    [
        (
            None,
            "bfloat16",
            "they were made without --mixed_precision. Received bfloat16; leave it out, or use",
        ),
        ("bfloat16", None, "they have --mixed_precision=bfloat16. Received none; add it, or use"),
    ],
)
def test_a_flag_that_is_given_only_once_is_named(settings, kept, received, message):
    begin(dataclasses.replace(settings, mixed_precision=kept))
    with pytest.raises(InputError, match=message):
        open_laboratory(dataclasses.replace(settings, mixed_precision=received), "abc")


def test_the_size_of_a_given_vocabulary_is_its_own(settings):
    open_laboratory(dataclasses.replace(settings, spm_model_file="30k.model"), "abc")
    assert "vocab_size" not in json.loads((settings.folder / "laboratory.json").read_text())


def test_another_text_is_refused(settings):
    begin(settings)
    with pytest.raises(InputError, match="Its text files have changed"):
        open_laboratory(settings, "abd")


def test_an_empty_laboratory_accepts_other_settings(settings):
    open_laboratory(settings, "abc")
    open_laboratory(dataclasses.replace(settings, vocab_size=100), "abd")
    fixed = json.loads((settings.folder / "laboratory.json").read_text())
    assert (fixed["vocab_size"], fixed["text"]) == (100, "abd")


def test_a_damaged_file_is_an_input_error(settings):
    begin(settings)
    (settings.folder / "laboratory.json").write_text("[")
    with pytest.raises(InputError, match="laboratory.json must be JSON"):
        open_laboratory(settings, "abc")


def test_a_file_is_not_a_laboratory(settings):
    settings.folder.write_text("a file")
    with pytest.raises(InputError, match="--output must be a writable folder. Received .*lab"):
        open_laboratory(settings, "abc")


def test_the_scale_provides_what_the_flags_leave_open():
    settings = LabSettings("lab", scale="paper").resolved(PAPER)
    assert (settings.train_batch_size, settings.num_train_steps, settings.num_warmup_steps) == (
        4096,
        125000,
        3125,
    )
    assert (settings.learning_rate, settings.max_seq_length, settings.vocab_size) == (0.00176, 512, 30000)
    assert settings.resolved(PAPER) == settings


def test_flags_override_the_scale_and_the_warm_up_follows():
    settings = LabSettings("lab", num_train_steps=40, vocab_size=100).resolved(TINY)
    assert (settings.num_train_steps, settings.num_warmup_steps, settings.vocab_size) == (40, 2, 100)
    assert LabSettings("lab", num_warmup_steps=0).resolved(TINY).num_warmup_steps == 0


def test_the_command_line_repeats_the_experiment():
    settings = LabSettings("my lab", "books/*.txt", seeds=5)
    assert (
        settings.command("table5")
        == "albert lab table5 '--output=my lab' '--input_file=books/*.txt' --seeds=5"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"seeds": -1}, "--seeds must be at least 0. Received -1."),
        ({"max_seq_length": -1}, "--max_seq_length must be at least 1"),
        ({"strategy": "multi_worker"}, "one machine or TPU"),
        ({"output": "a,b"}, "--output must have none of the characters .* Received a,b; use another name."),
        ({"output": "lab[1]"}, "--output must have none of the characters"),
        ({"speed_workers": 0}, "--speed_workers must be at least 1. Received 0."),
        ({"speed_workers": 2, "tpu": "local"}, "Received 2 with --tpu=local; omit one."),
        ({"speed_sizes": "paper", "tpu": "local"}, "Received paper with --tpu=local; omit one."),
        ({"num_warmup_steps": -5}, "--num_warmup_steps must be at least 0. Received -5."),
    ],
)
def test_wrong_flags_are_refused(flags, message):
    with pytest.raises(InputError, match=message):
        LabSettings(**{"output": "lab", **flags})


def test_the_papers_scale_uses_the_papers_recipes():
    assert PAPER.finetuning is None
    assert all(SCALES[name].finetuning for name in ("tiny", "small"))
