import dataclasses
import json

import pytest

from albert_tf.lab.laboratory import open_laboratory
from albert_tf.lab.scales import TINY
from albert_tf.lab.settings import LabSettings
from data_prep.errors import InputError


@pytest.fixture
def settings(tmp_path) -> LabSettings:
    return LabSettings(str(tmp_path / "lab"), "books/*.txt").resolved(TINY)


def begin(settings: LabSettings) -> None:
    open_laboratory(settings, "abc")
    (settings.folder / "runs" / "base").mkdir(parents=True)


def test_a_laboratory_that_has_begun_stays_what_it_is(settings):
    begin(settings)
    open_laboratory(dataclasses.replace(settings, seeds=5, glue_dir="glue"), "abc")  # more of the same
    with pytest.raises(InputError, match="laboratory with --num_train_steps 8000.*Received 7; use the same"):
        open_laboratory(dataclasses.replace(settings, num_train_steps=7), "abc")
    assert (
        json.loads((settings.folder / "laboratory.json").read_text())["num_train_steps"]
        == TINY.num_train_steps
    )


def test_another_text_is_told(settings):
    begin(settings)
    with pytest.raises(InputError, match="laboratory with files others.*Received these"):
        open_laboratory(settings, "abd")


def test_before_anything_was_made_other_settings_do_no_harm(settings):
    open_laboratory(settings, "abc")
    open_laboratory(dataclasses.replace(settings, vocab_size=100), "abd")
    fixed = json.loads((settings.folder / "laboratory.json").read_text())
    assert (fixed["vocab_size"], fixed["text"]) == (100, "abd")


def test_a_damaged_file_is_told(settings):
    begin(settings)
    (settings.folder / "laboratory.json").write_text("[")
    with pytest.raises(InputError, match="laboratory.json is damaged"):
        open_laboratory(settings, "abc")


def test_a_file_is_no_laboratory(settings):
    settings.folder.write_text("a file")
    with pytest.raises(InputError, match="--output must be a folder that can be written. Received .*lab"):
        open_laboratory(settings, "abc")
